#!lua flags=no-writes
-- Finds the faults of slots at gates without a key, all at one instant: gates missing from `slot_lists`, and wrong
-- sums.
-- KEYS slot_lists:set slot_counts:hash
-- ARGV tag [+ gates(as in the key `slots:{gates}`)]
-- REPLY ok:[gates that are missing from the list],[gate, stored sum, correct sum](of each gate with a wrong sum)
-- CHECKS FIRST nothing, because it only reads
-- include lib/constraints/gate_ids.lua
local lists_key, counts_key = KEYS[1], KEYS[2]
local tag = ARGV[1]
local FIRST = 2

local unlisted, held, wrong = {}, {}, {}
for i = FIRST, #ARGV do
  local gates = ARGV[i]
  if gate_ids.is_shared(gates) and redis.call('SISMEMBER', lists_key, gates) == 0
    and redis.call('EXISTS', tag .. 'slots:' .. gates) == 1 then
    unlisted[#unlisted + 1] = gates
  end
end
for _, gates in ipairs(redis.call('SMEMBERS', lists_key)) do
  local count = redis.call('HLEN', tag .. 'slots:' .. gates)
  for _, gate_id in ipairs(gate_ids.split(gates)) do held[gate_id] = (held[gate_id] or 0) + count end
end
local counts = redis.call('HGETALL', counts_key)
for i = 1, #counts, 2 do
  local gate_id, count = counts[i], tonumber(counts[i + 1])
  if count ~= (held[gate_id] or 0) then wrong[#wrong + 1] = {gate_id, count, held[gate_id] or 0} end
  held[gate_id] = nil
end
for gate_id, count in pairs(held) do
  if count > 0 then wrong[#wrong + 1] = {gate_id, 0, count} end
end
return {'ok', unlisted, wrong}
