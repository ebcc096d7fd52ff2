-- include lib/lazily.lua
-- include lib/jobs/record.lua
-- include lib/jobs/followed.lua
-- include lib/jobs/history.lua
-- include lib/lanes/lanes.lua
-- include lib/lanes/lane_changes.lua
-- include lib/challenges/challenges.lua
-- Cancels jobs.
local cancellation = lazily.made_by(function()
  local tag = ARGV.tag

  -- Cancels a job that has not ended. `head`: the beginning of its record. Returns the ID of the worker that runs the
  -- job; nil: it does not run. The caller writes lanes and batches afterwards.
  local function cancel(id, head, now_ms)
    local key, state = tag .. 'job:' .. id, record.state_of(head)
    local lane, own = lanes.home_of(head)
    local worker_id = state == layout.STATE.running and record.uuid_text(record.worker_of(head)) or nil
    local is_awaiting, flags = state == layout.STATE.awaiting_callback, record.flags_of(head)
    if record.has_flag(flags, layout.FLAG.has_challenge) then
      challenges.close(id, head, layout.STATE.canceled, now_ms)
      if is_awaiting then challenges.withdraw(id, head) end
      flags = flags - layout.FLAG.has_challenge
    end
    lane_changes.remove(id, state, lane, own)
    if worker_id or is_awaiting then
      local history_key, ran_on = tag .. 'history:' .. id, record.uuid_text(record.worker_of(head))
      if worker_id then redis.call('SREM', tag .. 'claims:' .. worker_id, id) end
      lanes.free(lane, own, id)
      local attempt, started_at_ms = record.attempts_of(head), record.int64(head, layout.started_at_ms.at)
      history.add(history_key, now_ms, history.entry_of(attempt, ran_on, started_at_ms, 'canceled'))
      history.trim(history_key)
    end
    followed.moved(key, head, layout.STATE.canceled, now_ms)
    lanes.count(lane, own, -1, (worker_id or is_awaiting) and 0 or -1)
    record.set_ended(key, layout.STATE.canceled, flags, layout.CAUSE.canceled, now_ms)
    redis.call('ZADD', tag .. 'canceled', now_ms, id)
    return worker_id
  end

  return {cancel = cancel}
end)
