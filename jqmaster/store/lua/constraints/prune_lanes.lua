#!lua flags=allow-oom
-- Removes empty lanes without keyed gates. Removes a name together with its last lane. Lanes with keyed gates are not
-- passed to this script, because each is removed with its last job.
-- KEYS epoch:string
-- ARGV tag epoch [+ lane]
-- REPLY ok:number of removed lanes | stale_epoch
-- CHECKS FIRST that the epoch is current; that each lane is empty
-- include lib/leadership.lua
-- include lib/lanes/lanes.lua
-- include lib/lanes/lane_writes.lua
local epoch_key, epoch = KEYS[1], ARGV[2]
local tag = ARGV[1]
local FIRST = 3

if not leadership.holds(epoch_key, epoch) then return {'stale_epoch'} end
local empty = {}
for i = FIRST, #ARGV do
  local lane = lanes.by_id(ARGV[i])
  if not lane.is_lost and lane.jobs <= 0 and redis.call('EXISTS', tag .. 'ready:' .. lane.id) == 0 then
    empty[#empty + 1] = lane
  end
end
if #empty > 0 then lane_writes.drop(empty) end
return {'ok', #empty}
