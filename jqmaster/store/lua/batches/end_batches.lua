#!lua
-- Handles due batches, at most `limit` a call:
-- * Removes complete batches after their retention. Keeps a nested batch as long as its parent exists.
-- * Removes batches that a call created but never filled.
-- * Cancels other batches that have expired.
-- KEYS epoch:string batches:zset batches_due:zset
-- ARGV now_ms tag epoch limit retention_ms
-- REPLY ok:
--     number of removed batches, number of canceled batches,
--     ms until the next batch is due (0: more are due now; -1: none will be)
--   | stale_epoch
-- CHECKS FIRST that the epoch is current, then the state of each batch
-- include lib/clock.lua
-- include lib/leadership.lua
-- include lib/batches/batches.lua
local epoch_key, batches_key, due_key = KEYS[1], KEYS[2], KEYS[3]
local now_ms, epoch, limit, retention_ms = clock.now_ms(ARGV[1]), ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local tag = ARGV[2]

if not leadership.holds(epoch_key, epoch) then return {'stale_epoch'} end
local removed, canceled = 0, 0
local PARENT_AGAIN_MS = 600000
for _, id in ipairs(redis.call('ZRANGEBYSCORE', due_key, '-inf', now_ms, 'LIMIT', 0, limit)) do
  local key = tag .. 'batch:' .. id
  local values = redis.call('HMGET', key, 'state', 'completed_at_ms', 'expires_at_ms', 'canceled_at_ms', 'parent')
  local state = values[1]
  local again_ms = tonumber(values[3] or 0)
  if state == 'complete' then
    again_ms = tonumber(values[2] or 0) + retention_ms
    -- Keep a nested batch while its parent exists, because a retry of the parent also retries the members of this
    -- batch.
    local parent = values[5] or ''
    if again_ms <= now_ms and parent ~= '' and redis.call('EXISTS', tag .. 'batch:' .. parent) == 1 then
      again_ms = now_ms + PARENT_AGAIN_MS
    end
  end
  if state and again_ms > now_ms then
    redis.call('ZADD', due_key, again_ms, id)
  elseif state and batches.is_unfilled(id) then
    batches.drop(id)
    removed = removed + 1
  elseif state and state ~= 'complete' then
    batches.cancel(id, now_ms, values[4] or '')
    redis.call('ZREM', due_key, id)
    canceled = canceled + 1
  else
    redis.call('UNLINK', key, tag .. 'batch_members:' .. id, tag .. 'batch_children:' .. id)
    redis.call('ZREM', batches_key, id)
    redis.call('ZREM', due_key, id)
    removed = removed + 1
  end
end
batches.write(now_ms)
local next_due = redis.call('ZRANGE', due_key, 0, 0, 'WITHSCORES')
return {'ok', removed, canceled, next_due[2] and math.max(0, tonumber(next_due[2]) - now_ms) or -1}
