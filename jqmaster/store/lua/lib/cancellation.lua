-- include lib/record.lua
-- include lib/followed.lua
-- include lib/history.lua
-- include lib/lanes.lua
-- Ends jobs as canceled.
local cancellation = (function()
  local tag = ARGV.tag
  local index = layout.index

  -- Ends a job that is not over; its record's beginning is `head`. The caller writes the lanes and batches
  -- afterwards. Returns the ID of the worker that runs it (nil: nobody does).
  local function cancel(id, head, now_ms)
    local key, state = tag .. 'job:' .. id, record.state_of(head)
    local lane, own = lanes.home_of(head)
    local worker_id = state == layout.STATE.running and record.uuid_text(record.worker_of(head)) or nil
    if index[state] then redis.call('ZREM', tag .. index[state], id) else lanes.remove(lane, id) end
    if worker_id then
      local history_key = tag .. 'history:' .. id
      redis.call('SREM', tag .. 'claims:' .. worker_id, id)
      lanes.free(lane, own, id)
      local attempt, started_at_ms = record.attempts_of(head), record.int64(head, layout.started_at_ms.at)
      history.add(history_key, now_ms, history.entry_of(attempt, worker_id, started_at_ms, 'canceled'))
      history.trim(history_key)
    end
    lanes.count(lane, own, -1, worker_id and 0 or -1)
    followed.moved(key, head, layout.STATE.canceled)
    record.set_ended(key, layout.STATE.canceled, record.flags_of(head), layout.CAUSE.canceled, now_ms)
    redis.call('ZADD', tag .. 'canceled', now_ms, id)
    return worker_id
  end

  return {cancel = cancel}
end)()
