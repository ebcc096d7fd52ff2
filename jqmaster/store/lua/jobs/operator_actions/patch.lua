#!lua
-- Changes the priority, start time, retries or timeout of a waiting job. If this changes the job's gates, moves it to
-- another lane.
-- KEYS job:string rules:hash
-- ARGV now_ms tag job_id
--   wake_channel(empty: wake nobody)
--   edition
--   lanes(format: lib/lanes/homes.lua)
--   priority(empty: unchanged)
--   run_at_ms(empty: unchanged)
--   max_retry(empty: unchanged)
--   timeout_ms(empty: unchanged)
--   action_id(action on many jobs that includes this job; empty: none)
--   extras(of the record, with its new weights; empty: unchanged)
-- REPLY ok | stale_constraints | unknown | state:state | used_up
-- CHECKS FIRST that the edition of the constraints is current;
--   the state of the job;
--   that the action may change one more job (used_up)
-- include lib/clock.lua
-- include lib/jobs/record.lua
-- include lib/lanes/lanes.lua
-- include lib/lanes/lane_writes.lua
-- include lib/lanes/lane_changes.lua
-- include lib/lanes/homes.lua
-- include lib/jobs/actions.lua
local job_key, rules_key = KEYS[1], KEYS[2]
local now_ms, id, wake_channel, edition = clock.now_ms(ARGV[1]), ARGV[3], ARGV[4], ARGV[5]
local definitions = homes.read(ARGV[6])
local priority, run_at_ms, max_retry = tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9])
local timeout_ms, action_id, extras = tonumber(ARGV[10]), ARGV[11], ARGV[12]
local tag = ARGV[2]
local is_changeable, is_timed, index = layout.is_changeable, layout.is_timed, layout.index
local READY = layout.STATE.ready

if (redis.call('HGET', rules_key, 'edition') or '0') ~= edition then return {'stale_constraints'} end
local head = record.read_head(job_key)
if head == '' then return {'unknown'} end
local state = record.state_of(head)
if not is_changeable[state] then return {'state', state} end
if actions.is_used_up(action_id) then return {'used_up'} end
priority = priority or record.priority_of(head)
redis.call('SETRANGE', job_key, layout.priority.offset, struct.pack('>i4I4i8', priority,
  max_retry or struct.unpack('>I4', head, layout.max_retry.at), timeout_ms or record.int64(head, layout.timeout_ms.at)))
local target, due_at_ms = state, record.int64(head, layout.due_at_ms.at)
if run_at_ms then
  due_at_ms = run_at_ms
  if state ~= READY and not is_timed[state] then target = state
  elseif run_at_ms <= now_ms then target = READY
  elseif state == READY then target = layout.STATE.scheduled end
end
record.set_state(job_key, target)
record.set_int64(job_key, layout.due_at_ms.offset, due_at_ms)
local old_lane, old_own = lanes.home_of(head)
local lane, own = homes.of(definitions, 1, tonumber(edition))
lane_changes.leave(id, state, old_lane, old_own, target, lane)
homes.write(job_key, head, lane, definitions[1].bytes, extras ~= '' and extras or nil)
lanes.count(lane, own, 1, 1)
if target == READY then
  lanes.add(lane, priority, id)
elseif is_timed[target] then
  redis.call('ZADD', tag .. index[target], due_at_ms, id)
end
local has_opened = lane_writes.write(nil)
actions.count_job(action_id, id, false)
if wake_channel ~= '' then
  if target == READY or has_opened then redis.call('PUBLISH', wake_channel, 'ready') end
  if is_timed[target] then redis.call('PUBLISH', wake_channel, 'due') end
end
return {'ok'}
