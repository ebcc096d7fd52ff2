#!lua flags=allow-oom
-- If a gate without a key has slots, adds the gate to the list of such gates. Recomputes the sums of the slots of the
-- given gates.
-- KEYS epoch:string slot_lists:set slot_counts:hash audit:stream
-- ARGV now_ms tag epoch
--   wake_channel(empty: wake nobody)
--   audit_entry audit_max
--   [+ gates(as in the key `slots:{gates}`)]
-- REPLY ok:number of repaired entries and sums | stale_epoch
-- CHECKS FIRST that the epoch is current
-- include lib/clock.lua
-- include lib/leadership.lua
-- include lib/constraints/gate_ids.lua
-- include lib/lanes/parking.lua
-- include lib/identity/audit_log.lua
local epoch_key, lists_key, counts_key, audit_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local now_ms, epoch, wake_channel, audit_entry = clock.now_ms(ARGV[1]), ARGV[3], ARGV[4], ARGV[5]
local audit_max = tonumber(ARGV[6])
local tag = ARGV[2]
local FIRST = 7

if not leadership.holds(epoch_key, epoch) then return {'stale_epoch'} end
local count, held, freed = 0, {}, {}
for i = FIRST, #ARGV do
  local gate_list = ARGV[i]
  if gate_ids.is_shared(gate_list) and redis.call('EXISTS', tag .. 'slots:' .. gate_list) == 1 then
    count = count + redis.call('SADD', lists_key, gate_list)
  end
end
for _, gate_list in ipairs(redis.call('SMEMBERS', lists_key)) do
  local held_here = redis.call('HLEN', tag .. 'slots:' .. gate_list)
  if held_here == 0 then count = count + redis.call('SREM', lists_key, gate_list) end
  for _, gate_id in ipairs(gate_ids.split(gate_list)) do held[gate_id] = (held[gate_id] or 0) + held_here end
end
local counts = redis.call('HGETALL', counts_key)
for i = 1, #counts, 2 do
  if (held[counts[i]] or 0) == 0 then
    redis.call('HDEL', counts_key, counts[i])
    freed[#freed + 1] = counts[i]
    count = count + 1
  elseif held[counts[i]] ~= tonumber(counts[i + 1]) then
    redis.call('HSET', counts_key, counts[i], held[counts[i]])
    if held[counts[i]] < tonumber(counts[i + 1]) then freed[#freed + 1] = counts[i] end
    count = count + 1
  end
  held[counts[i]] = nil
end
for gate_id, count_held in pairs(held) do
  if count_held > 0 then
    redis.call('HSET', counts_key, gate_id, count_held)
    count = count + 1
  end
end
local has_opened = parking.open_all(parking.closed_among(freed))
if count > 0 then
  audit_log.write(audit_key, now_ms, audit_entry, audit_max)
  if has_opened and wake_channel ~= '' then redis.call('PUBLISH', wake_channel, 'ready') end
end
return {'ok', count}
