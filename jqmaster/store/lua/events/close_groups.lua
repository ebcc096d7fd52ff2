#!lua
-- Closes due groups of events and returns them. Later events open new groups.
-- KEYS epoch:string event_groups:zset event_slots:hash
-- ARGV now_ms tag epoch limit
--   max_bytes(the call stops after the group that exceeds this total size)
-- REPLY ok:
--     ms until the next group is due(0: more are due now; -1: no group is open),
--     [ID, fields and values](of each closed group)
--   | stale_epoch
-- CHECKS FIRST that the epoch is current
-- include lib/clock.lua
-- include lib/leadership.lua
local epoch_key, groups_key, slots_key = KEYS[1], KEYS[2], KEYS[3]
local now_ms, epoch, limit, max_bytes = clock.now_ms(ARGV[1]), ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local tag = ARGV[2]

if not leadership.holds(epoch_key, epoch) then return {'stale_epoch'} end
local found, size = {}, 0
for _, group in ipairs(redis.call('ZRANGEBYSCORE', groups_key, '-inf', now_ms, 'LIMIT', 0, limit)) do
  if size > max_bytes then break end
  local fields = redis.call('HGETALL', tag .. 'event_group:' .. group)
  for n = 1, #fields, 2 do
    size = size + #fields[n + 1]
    if fields[n] == 'slot' and redis.call('HGET', slots_key, fields[n + 1]) == group then
      redis.call('HDEL', slots_key, fields[n + 1])
    end
  end
  found[#found + 1], found[#found + 2] = group, fields
end
local next_due = redis.call('ZRANGE', groups_key, 0, 0, 'WITHSCORES')
return {'ok', next_due[2] and math.max(0, math.ceil(tonumber(next_due[2]) - now_ms)) or -1, found}
