#!lua flags=allow-oom
-- Removes what was kept of gates behind which nothing waits and nothing runs, at most `limit` for each constraint, and with the last of them what was kept of a constraint that is gone.
-- KEYS epoch:string counted:set shadowed:hash slot_counts:hash
-- ARGV tag epoch limit place(where among those with nothing waiting to look: 0 at the first, just below 1 at the last)
-- REPLY ok:removed | stale_epoch
-- CHECKS FIRST epoch
-- include lib/epoch.lua
local epoch_key, counted_key, shadowed_key, slot_counts_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local tag, epoch, limit, place = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])

if not leads(epoch_key, epoch) then return {'stale_epoch'} end
local removed = 0
for _, cid in ipairs(redis.call('SMEMBERS', counted_key)) do
  local gates_key, idle = tag .. 'gates:' .. cid, {}
  -- Never the first alone: jobs may run behind all of those for as long as they like.
  local from = math.floor(place * math.max(1, redis.call('ZCOUNT', gates_key, '-inf', 0) - limit + 1))
  for _, gate_id in ipairs(redis.call('ZRANGEBYSCORE', gates_key, '-inf', 0, 'LIMIT', from, limit)) do
    if redis.call('EXISTS', tag .. 'slots:' .. gate_id, tag .. 'starts:' .. gate_id) + redis.call('HEXISTS', slot_counts_key, gate_id) == 0 then
      idle[#idle + 1] = gate_id
    end
  end
  if #idle > 0 then
    redis.call('ZREM', gates_key, unpack(idle))
    redis.call('HDEL', tag .. 'key_values:' .. cid, unpack(idle))
    redis.call('HDEL', tag .. 'served:' .. cid, unpack(idle))
    removed = removed + #idle
  end
  if redis.call('EXISTS', gates_key, tag .. 'limits:' .. cid) == 0 then
    redis.call('SREM', counted_key, cid)
    redis.call('HDEL', shadowed_key, cid)
    redis.call('UNLINK', tag .. 'key_values:' .. cid, tag .. 'served:' .. cid)
  end
end
return {'ok', removed}
