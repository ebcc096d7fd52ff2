#!lua flags=allow-oom
-- Makes the leader hand the lead to another master, as an operator requested. Writes the audit entry.
-- KEYS leader:string demoted:string masters:zset audit:stream
-- ARGV now_ms
--   holder(value of the lock, as the caller read it)
--   master_id(of the leader)
--   fresh_ms(another master must have sent a heartbeat within this time)
--   hold_ms(how long the leader may not lead again)
--   audit_entry audit_max wake_channel
-- REPLY ok | not_leader | alone
-- CHECKS FIRST that the leader and its epoch are those that the caller saw; that another master is alive
-- include lib/clock.lua
-- include lib/identity/audit_log.lua
local leader_key, demoted_key, masters_key, audit_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local now_ms, holder, master_id, fresh_ms, hold_ms = clock.now_ms(ARGV[1]), ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5]
local audit_entry, audit_max, wake_channel = ARGV[6], ARGV[7], ARGV[8]

if redis.call('GET', leader_key) ~= holder then return {'not_leader'} end
local others = redis.call('ZCOUNT', masters_key, now_ms - fresh_ms, '+inf')
if tonumber(redis.call('ZSCORE', masters_key, master_id) or '-inf') >= now_ms - fresh_ms then others = others - 1 end
if others < 1 then return {'alone'} end
audit_log.write(audit_key, now_ms, audit_entry, audit_max)
redis.call('SET', demoted_key, master_id, 'PX', hold_ms)
redis.call('PUBLISH', wake_channel, 'demoted:' .. master_id)
return {'ok'}
