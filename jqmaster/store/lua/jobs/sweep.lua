#!lua flags=allow-oom
-- Removes finished jobs of one state that are over their retention, the oldest first, at most `limit` a call, and the
-- uniqueness keys that they took last. Results live by themselves.
-- KEYS epoch:string finished:zset expiring:zset
-- ARGV now_ms tag epoch limit retention_ms max_jobs
-- REPLY ok:removed | stale_epoch
-- CHECKS FIRST epoch
-- include lib/clock.lua
-- include lib/lists.lua
-- include lib/leadership.lua
-- include lib/uniqueness.lua
local epoch_key, finished_key, expiring_key = KEYS[1], KEYS[2], KEYS[3]
local now_ms, epoch, limit, retention_ms = clock.now_ms(ARGV[1]), ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local tag, max_jobs = ARGV[2], tonumber(ARGV[6])

if not leadership.holds(epoch_key, epoch) then return {'stale_epoch'} end
local excess = math.min(limit, redis.call('ZCARD', finished_key) - max_jobs)
local old = excess > 0 and redis.call('ZRANGE', finished_key, 0, excess - 1)
  or redis.call('ZRANGEBYSCORE', finished_key, '-inf', now_ms - retention_ms, 'LIMIT', 0, limit)
local garbage, may_have_keys = {}, uniqueness.is_used()
for _, id in ipairs(old) do
  local job_key = tag .. 'job:' .. id
  if may_have_keys then uniqueness.leave(id, job_key, now_ms) end
  garbage[#garbage + 1] = job_key
  garbage[#garbage + 1] = tag .. 'history:' .. id
  garbage[#garbage + 1] = tag .. 'progress:' .. id
end
lists.call('ZREM', finished_key, old)
lists.call('ZREM', expiring_key, old)
if #garbage > 0 then redis.call('UNLINK', unpack(garbage)) end
return {'ok', #old}
