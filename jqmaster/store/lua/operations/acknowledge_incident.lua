#!lua flags=allow-oom
-- Records in the timeline that somebody is handling an incident. Writes the audit entry.
-- KEYS timeline:stream timeline_acknowledged:stream audit:stream
-- ARGV now_ms entry_id(of an entry of the incident) entry(MessagePack) timeline_max audit_entry audit_max
-- REPLY ok | unknown
-- CHECKS FIRST that the timeline still has this entry
-- include lib/clock.lua
-- include lib/identity/audit_log.lua
local timeline_key, acknowledged_key, audit_key = KEYS[1], KEYS[2], KEYS[3]
local now_ms, entry_id, entry, timeline_max = clock.now_ms(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]
local audit_entry, audit_max = ARGV[5], ARGV[6]

if #redis.call('XRANGE', timeline_key, entry_id, entry_id) == 0 then return {'unknown'} end
-- Acknowledgements have a stream of their own, so that many of them cannot push out other entries.
redis.call('XADD', acknowledged_key, 'MAXLEN', '~', timeline_max, '*', 'entry', entry)
audit_log.write(audit_key, now_ms, audit_entry, audit_max)
return {'ok'}
