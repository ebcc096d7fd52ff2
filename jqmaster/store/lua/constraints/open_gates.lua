#!lua flags=allow-oom
-- Opens the lanes that are parked at due gates. Does the same for the given gates, which may have room again.
-- KEYS epoch:string gates_due:zset holds:hash observed:hash
-- ARGV now_ms tag epoch limit [+ gate]
-- REPLY ok:
--     number of due gates,
--     ms until the next gate is due(-1: none),
--     1 if more jobs can start now than before this call
--   | stale_epoch
-- CHECKS FIRST that the epoch is current
-- include lib/clock.lua
-- include lib/leadership.lua
-- include lib/lists.lua
-- include lib/lanes/parking.lua
local epoch_key, gates_due_key, holds_key, observed_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local now_ms, epoch, limit = clock.now_ms(ARGV[1]), ARGV[3], tonumber(ARGV[4])
local FIRST = 5

if not leadership.holds(epoch_key, epoch) then return {'stale_epoch'} end
local due = redis.call('ZRANGEBYSCORE', gates_due_key, '-inf', now_ms, 'LIMIT', 0, limit)
lists.call('ZREM', gates_due_key, due)
-- Removes a hold or an observation if it has expired. Otherwise schedules a check of the gate at its expiry.
local function end_at(key, gate_id, until_ms)
  if not until_ms then return end
  if until_ms <= now_ms then
    redis.call('HDEL', key, gate_id)
  else
    -- A gate has at most one scheduled check. Keep an earlier check, because that check will schedule this check.
    redis.call('ZADD', gates_due_key, 'LT', until_ms, gate_id)
  end
end
for _, key in ipairs(#due > 0 and {holds_key, observed_key} or {}) do
  if redis.call('EXISTS', key) == 1 then
    for _, gate_id in ipairs(due) do
      local stored = redis.call('HGET', key, gate_id) or ''
      end_at(key, gate_id, tonumber(key == holds_key and stored or string.match(stored, '^%S+ (%d+)')))
    end
  end
end
parking.open_all(due)
-- Count a due gate as opened even if no lane is parked there now. A claim for another name may have opened the lanes.
local has_opened = #due > 0
for i = FIRST, #ARGV do
  local _, has_come_back = parking.open(ARGV[i])
  has_opened = has_opened or has_come_back
end
local next_due = redis.call('ZRANGE', gates_due_key, 0, 0, 'WITHSCORES')
return {'ok', #due, next_due[2] and math.max(0, tonumber(next_due[2]) - now_ms) or -1, has_opened and 1 or 0}
