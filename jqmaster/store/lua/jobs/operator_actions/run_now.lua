#!lua
-- Makes a scheduled or retrying job ready at once.
-- KEYS job:string
-- ARGV tag job_id
--   wake_channel(empty: wake nobody)
--   action_id(action on many jobs that includes this job; empty: none)
-- REPLY ok | unknown | state:state | used_up
-- CHECKS FIRST the state of the job; that the action may change one more job (used_up)
-- include lib/jobs/record.lua
-- include lib/lanes/lanes.lua
-- include lib/lanes/lane_writes.lua
-- include lib/jobs/actions.lua
local job_key = KEYS[1]
local id, wake_channel, action_id = ARGV[2], ARGV[3], ARGV[4]
local tag = ARGV[1]
local is_startable, index = layout.is_startable, layout.index

local head = record.read_head(job_key)
if head == '' then return {'unknown'} end
local state = record.state_of(head)
if state == layout.STATE.ready then
  record.write_again(job_key, head)
  return {'ok'}
end
if not is_startable[state] then return {'state', state} end
if actions.is_used_up(action_id) then return {'used_up'} end
redis.call('ZREM', tag .. index[state], id)
record.set_state(job_key, layout.STATE.ready)
record.set_int64(job_key, layout.due_at_ms.offset, 0)
lanes.add(lanes.of(head), record.priority_of(head), id)
lane_writes.write(nil)
actions.count_job(action_id, id, false)
if wake_channel ~= '' then redis.call('PUBLISH', wake_channel, 'ready') end
return {'ok'}
