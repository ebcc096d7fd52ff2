#!lua flags=allow-oom
-- Sets claims with unreadable records aside as damaged. The leader no longer checks them. They no longer occupy a
-- worker, or slots for which other jobs wait.
-- KEYS epoch:string running:zset damaged:set workers:zset
-- ARGV tag epoch [+ id]
-- REPLY ok:
--     number of claims,
--     [id of each claim with unknown gates, which may still hold slots],
--     1 if more jobs can start now than before this call
--   | stale_epoch
-- CHECKS FIRST that the epoch is current; that each job is still claimed
-- include lib/leadership.lua
-- include lib/lanes/lanes.lua
-- include lib/lanes/lane_writes.lua
local epoch_key, running_key, damaged_key, workers_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local epoch = ARGV[2]
local tag = ARGV[1]
local FIRST = 3

if not leadership.holds(epoch_key, epoch) then return {'stale_epoch'} end
local count, untold = 0, {}
local workers = redis.call('ZRANGE', workers_key, 0, -1)
for i = FIRST, #ARGV do
  local id = ARGV[i]
  if redis.call('ZREM', running_key, id) == 1 then
    redis.call('SADD', damaged_key, id)
    -- Search the claims of all workers, because only the unreadable record names the job's worker.
    for _, worker_id in ipairs(workers) do redis.call('SREM', tag .. 'claims:' .. worker_id, id) end
    local lane, own, is_all = lanes.home_of_damaged(tag .. 'job:' .. id)
    if lane then
      lanes.free(lane, own, id)
      lanes.count(lane, own, -1, 0)
    end
    if not is_all then untold[#untold + 1] = id end
    count = count + 1
  end
end
local has_opened = lane_writes.write(nil)
return {'ok', count, untold, has_opened and 1 or 0}
