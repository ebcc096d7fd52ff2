#!lua flags=allow-oom
-- Lets the sub-leader take the lead from a silent leader before the leader's lock expires. Writes the audit entry.
-- KEYS leader:string epoch:string demoted:string masters:zset audit:stream
-- ARGV now_ms
--   holder(value of the silent leader's lock)
--   silent_id(master ID of the silent leader)
--   seen_ms(time of its last heartbeat, as the caller read it)
--   master_id nonce ttl_ms
--   hold_ms(how long the silent leader may not lead again)
--   audit_entry audit_max wake_channel
-- REPLY ok:epoch | changed
-- CHECKS FIRST that the silent leader still leads, and has sent no heartbeat since the caller read it;
--   that the caller was not demoted
-- include lib/clock.lua
-- include lib/leadership.lua
-- include lib/identity/audit_log.lua
local leader_key, epoch_key, demoted_key, masters_key, audit_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local now_ms, holder, silent_id, seen_ms = clock.now_ms(ARGV[1]), ARGV[2], ARGV[3], tonumber(ARGV[4])
local master_id, nonce, ttl_ms = ARGV[5], ARGV[6], ARGV[7]
local hold_ms, audit_entry, audit_max, wake_channel = ARGV[8], ARGV[9], ARGV[10], ARGV[11]

if redis.call('GET', leader_key) ~= holder then return {'changed'} end
if tonumber(redis.call('ZSCORE', masters_key, silent_id) or '-1') ~= seen_ms then return {'changed'} end
if redis.call('GET', demoted_key) == master_id then return {'changed'} end
audit_log.write(audit_key, now_ms, audit_entry, audit_max)
local epoch = leadership.begin(leader_key, epoch_key, now_ms, master_id, nonce, ttl_ms)
redis.call('SET', demoted_key, silent_id, 'PX', hold_ms)
redis.call('PUBLISH', wake_channel, 'demoted:' .. silent_id)
return {'ok', epoch}
