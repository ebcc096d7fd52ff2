#!lua flags=allow-oom
-- Ends a job that waits or runs as canceled. The running attempt's token is void at once; its worker is told
-- afterwards.
-- KEYS job:string canceled:zset history:list
-- ARGV now_ms tag job_id wake_channel(empty: nobody to wake) finished_channel action_id(that counts it; empty: none)
-- REPLY ok:worker_id_bytes(empty: it did not run),token_bytes,1 if jobs may start that could not
--   before,name(empty: it was canceled before) | unknown | state:state
-- CHECKS FIRST the state
-- include lib/clock.lua
-- include lib/record.lua
-- include lib/history.lua
-- include lib/lanes.lua
-- include lib/lane_writes.lua
-- include lib/actions.lua
local job_key, canceled_key, history_key = KEYS[1], KEYS[2], KEYS[3]
local now_ms, id, wake_channel, finished_channel, action_id = clock.now_ms(ARGV[1]), ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local tag = ARGV[2]
local is_cancelable, index = layout.is_cancelable, layout.index

local head = record.read_head(job_key)
if head == '' then return {'unknown'} end
local state, flags = record.state_of(head), record.flags_of(head)
if state == layout.STATE.canceled then
  record.write_again(job_key, head)
  return {'ok', '', '', 0, ''}
end
if not is_cancelable[state] then return {'state', state} end
local was_running = state == layout.STATE.running
local lane, own = lanes.home_of(head)
local worker_id = was_running and record.uuid_text(record.worker_of(head))
if index[state] then redis.call('ZREM', tag .. index[state], id) else lanes.remove(lane, id) end
if was_running then
  redis.call('SREM', tag .. 'claims:' .. worker_id, id)
  lanes.free(lane, own, id)
  local attempt, started_at_ms = record.attempts_of(head), record.int64(head, layout.started_at_ms.at)
  history.add(history_key, now_ms, history.entry_of(attempt, worker_id, started_at_ms, 'canceled'))
  history.trim(history_key)
end
lanes.count(lane, own, -1, was_running and 0 or -1)
record.set_ended(job_key, layout.STATE.canceled, flags, layout.CAUSE.canceled, now_ms)
redis.call('ZADD', canceled_key, now_ms, id)
local has_opened = lane_writes.write(nil)
actions.count_job(action_id, id, false)
if record.has_flag(flags, layout.FLAG.watched) then redis.call('PUBLISH', finished_channel, id) end
if wake_channel ~= '' then
  if was_running then redis.call('PUBLISH', wake_channel, 'freed:' .. worker_id .. ':1') end
  if has_opened then redis.call('PUBLISH', wake_channel, 'ready') end
end
if not was_running then return {'ok', '', '', has_opened and 1 or 0, record.name_of(head)} end
return {'ok', record.worker_of(head), record.token_of(head), has_opened and 1 or 0, record.name_of(head)}
