#!lua flags=allow-oom
-- Cancels a waiting or running job. The token of a running attempt becomes void at once. The caller then notifies the
-- worker.
-- KEYS job:string
-- ARGV now_ms tag job_id
--   wake_channel(empty: wake nobody)
--   finished_channel
--   action_id(action on many jobs that includes this job; empty: none)
-- REPLY ok:
--     worker_id_bytes(empty: the job did not run),
--     token_bytes,
--     1 if more jobs can start now than before this call,
--     name(empty: the job was canceled before)
--   | unknown
--   | state:state
--   | used_up
-- CHECKS FIRST the state of the job; that the action may change one more job (used_up)
-- include lib/clock.lua
-- include lib/jobs/record.lua
-- include lib/lanes/lane_writes.lua
-- include lib/jobs/cancellation.lua
-- include lib/jobs/followed.lua
-- include lib/jobs/actions.lua
local job_key = KEYS[1]
local now_ms, id, wake_channel, finished_channel, action_id = clock.now_ms(ARGV[1]), ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local is_cancelable = layout.is_cancelable

local head = record.read_head(job_key)
if head == '' then return {'unknown'} end
local state, flags = record.state_of(head), record.flags_of(head)
if state == layout.STATE.canceled then
  record.write_again(job_key, head)
  return {'ok', '', '', 0, ''}
end
if not is_cancelable[state] then return {'state', state} end
if actions.is_used_up(action_id) then return {'used_up'} end
local worker_id = cancellation.cancel(id, head, now_ms)
local has_opened = lane_writes.write(nil)
followed.write(now_ms)
actions.count_job(action_id, id, false)
if record.has_flag(flags, layout.FLAG.watched) then redis.call('PUBLISH', finished_channel, id) end
if wake_channel ~= '' then
  if worker_id then redis.call('PUBLISH', wake_channel, 'freed:' .. worker_id .. ':1') end
  if has_opened then redis.call('PUBLISH', wake_channel, 'ready') end
end
if not worker_id then return {'ok', '', '', has_opened and 1 or 0, record.name_of(head)} end
return {'ok', record.worker_of(head), record.token_of(head), has_opened and 1 or 0, record.name_of(head)}
