#!lua flags=allow-oom
-- Frees the slots that these jobs hold at the given gates. Their claims were set aside as damaged, and their records do
-- not name these gates.
-- KEYS epoch:string running:zset
-- ARGV tag epoch ids(MessagePack: [id, …]) [+ gates(as in the key `slots:{gates}`)]
-- REPLY ok:1 if more jobs can start now than before this call | stale_epoch
-- CHECKS FIRST that the epoch is current; that none of the jobs runs again
-- include lib/lazily.lua
-- include lib/leadership.lua
-- include lib/constraints/gate_ids.lua
-- include lib/constraints/slots.lua
-- include lib/constraints/charges.lua
-- include lib/lanes/parking.lua
local epoch_key, running_key = KEYS[1], KEYS[2]
local epoch, ids = ARGV[2], cmsgpack.unpack(ARGV[3])
local FIRST = 4

if not leadership.holds(epoch_key, epoch) then return {'stale_epoch'} end
local lost, has_any_opened = {}, false
for _, id in ipairs(ids) do
  if not redis.call('ZSCORE', running_key, id) then lost[#lost + 1] = id end
end
for i = FIRST, #ARGV do
  for _, gate_id in ipairs(#lost > 0 and gate_ids.split(ARGV[i]) or {}) do
    if gate_ids.may_have_charges(gate_id) then charges.give_back(gate_id, lost, nil) end
  end
  if #lost > 0 and slots.give_back(ARGV[i], lost) > 0 then
    has_any_opened = parking.open_all(gate_ids.split(ARGV[i])) or has_any_opened
  end
end
if lazily.is_made(charges) then charges.write_sums() end
return {'ok', has_any_opened and 1 or 0}
