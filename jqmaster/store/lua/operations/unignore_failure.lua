#!lua flags=allow-oom
-- Stops ignoring a group of failures, and writes the audit entry.
-- KEYS failure_groups:hash failure_ignores:hash audit:stream
-- ARGV now_ms group_id audit_entry audit_max
-- REPLY ok | unknown | same
-- CHECKS FIRST that the group exists; that it is ignored (same)
-- include lib/clock.lua
-- include lib/identity/audit_log.lua
local groups_key, ignores_key, audit_key = KEYS[1], KEYS[2], KEYS[3]
local now_ms, id, audit_entry, audit_max = clock.now_ms(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]

if redis.call('HEXISTS', groups_key, id) == 0 then return {'unknown'} end
if redis.call('HDEL', ignores_key, id) == 0 then return {'same'} end
audit_log.write(audit_key, now_ms, audit_entry, audit_max)
return {'ok'}
