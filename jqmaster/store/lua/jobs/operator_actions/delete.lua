#!lua flags=allow-oom
-- Removes a job that is not running, and everything that belongs to it. Also removes a job that was set aside as
-- damaged.
-- KEYS job:string history:list result:string damaged:set results:zset expiring:zset
-- ARGV now_ms tag job_id
--   wake_channel(empty: wake nobody)
--   action_id(action on many jobs that includes this job; empty: none)
-- REPLY ok | unknown | state:state | used_up
-- CHECKS FIRST the state of the job, except if it was set aside; that the action may change one more job (used_up)
-- include lib/clock.lua
-- include lib/jobs/record.lua
-- include lib/lanes/lanes.lua
-- include lib/lanes/lane_writes.lua
-- include lib/lanes/lane_changes.lua
-- include lib/jobs/actions.lua
-- include lib/jobs/uniqueness.lua
-- include lib/jobs/followed.lua
-- include lib/logs/job_logs.lua
local job_key, history_key, result_key, damaged_key, results_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local expiring_key = KEYS[6]
local now_ms, id, wake_channel, action_id = clock.now_ms(ARGV[1]), ARGV[3], ARGV[4], ARGV[5]
local tag = ARGV[2]
local is_waiting, is_deletable, indexes = layout.is_waiting, layout.is_deletable, layout.index

local head = record.read_head(job_key)
local state = record.state_of(head)
local was_set_aside = redis.call('SISMEMBER', damaged_key, id) == 1
if not was_set_aside then
  if head == '' then return {'unknown'} end
  if not is_deletable[state] then return {'state', state} end
end
if actions.is_used_up(action_id) then return {'used_up'} end
if was_set_aside then
  -- The counts of the lane no longer include the job, and the lane may be gone.
  local lane = lanes.home_of_damaged(job_key)
  if lane and redis.call('ZSCORE', tag .. 'ready:' .. lane.id, id) then lanes.remove(lane, id) end
elseif is_waiting[state] then
  local lane, own = lanes.home_of(head)
  lane_changes.remove(id, state, lane, own)
  lanes.count(lane, own, -1, -1)
end
for _, index in pairs(indexes) do redis.call('ZREM', tag .. index, id) end
redis.call('ZREM', results_key, id)
redis.call('ZREM', expiring_key, id)
redis.call('SREM', damaged_key, id)
uniqueness.leave(id, job_key, now_ms)
followed.deleted(id, job_key, head)
if redis.call('UNLINK', tag .. 'challenges:' .. id) == 1 then redis.call('ZREM', tag .. 'challenged', id) end
redis.call('UNLINK', job_key, history_key, result_key, tag .. 'progress:' .. id, tag .. 'parts:' .. id)
job_logs.erase(id, now_ms)
local has_opened = lane_writes.write(nil)
followed.write(now_ms)
actions.count_job(action_id, id, false)
if has_opened and wake_channel ~= '' then redis.call('PUBLISH', wake_channel, 'ready') end
return {'ok'}
