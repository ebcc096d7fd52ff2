#!lua flags=allow-oom
-- Stores an action on many jobs for the leader to carry out, and writes the audit entry. Works in a full store, too,
-- because deleting jobs may be the way to relieve the store. Removes the oldest finished actions beyond the limit.
-- KEYS actions:zset running_actions:set action:hash audit:stream
-- ARGV now_ms action_id spec
--   ids(MessagePack; empty: the spec has a filter instead)
--   progress audit_entry audit_max max_running max_kept action_prefix wake_channel
--   at_most(maximum number of jobs that the action may change; empty: any number)
-- REPLY ok | full
-- CHECKS FIRST that fewer than `max_running` actions are running
-- include lib/clock.lua
-- include lib/identity/audit_log.lua
local actions_key, running_key, action_key, audit_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local now_ms, id, spec, ids, progress = clock.now_ms(ARGV[1]), ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local audit_entry, audit_max, max_running, max_kept = ARGV[6], ARGV[7], tonumber(ARGV[8]), tonumber(ARGV[9])
local action_prefix, wake_channel, at_most = ARGV[10], ARGV[11], ARGV[12]

if redis.call('SCARD', running_key) >= max_running then return {'full'} end
local surplus = redis.call('ZCARD', actions_key) + 1 - max_kept
-- Read `max_running` more actions than the surplus, because the oldest ones may be running and then stay.
local oldest = surplus > 0 and redis.call('ZRANGE', actions_key, 0, surplus + max_running - 1) or {}
for _, old in ipairs(oldest) do
  if surplus > 0 and redis.call('SISMEMBER', running_key, old) == 0 then
    redis.call('ZREM', actions_key, old)
    redis.call('UNLINK', action_prefix .. old)
    surplus = surplus - 1
  end
end
redis.call('HSET', action_key, 'spec', spec, 'progress', progress)
if ids ~= '' then redis.call('HSET', action_key, 'ids', ids) end
if at_most ~= '' then redis.call('HSET', action_key, 'at_most', at_most) end
redis.call('ZADD', actions_key, now_ms, id)
redis.call('SADD', running_key, id)
audit_log.write(audit_key, now_ms, audit_entry, audit_max)
if wake_channel ~= '' then redis.call('PUBLISH', wake_channel, 'actions') end
return {'ok'}
