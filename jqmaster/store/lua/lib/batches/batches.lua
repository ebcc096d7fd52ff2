-- include lib/lazily.lua
-- include lib/lists.lua
-- include lib/jobs/follow_ups.lua
-- Batches. The hash `batch:{batch_id}` counts the members of a batch by their endings. Scripts note changes here.
-- `write` adds them up and writes them with a few commands for each batch, even if many of its jobs have changed.
local batches = lazily.made_by(function()
  local tag = ARGV.tag
  local FIRST_COUNT, LAST_COUNT = 2, 12
  -- Set on first use, because most calls have no jobs in a batch.
  local is_final, index

  -- `changes_of`: by batch, the numbers to add to its counts. `touched`: the IDs of these batches in order, some of
  -- them more than once.
  local changes_of, touched = {}, {}
  local joined, left = {}, {}

  local function touch(id)
    if not changes_of[id] then
      changes_of[id] = {}
      touched[#touched + 1] = id
    end
    return changes_of[id]
  end

  local function add(id, field, by)
    local move = touch(id)
    move[field] = (move[field] or 0) + by
  end

  -- Returns the name of the count for a final state; nil for other states.
  local function count_of(state)
    if not index then is_final, index = layout.is_final, layout.index end
    return is_final[state] and index[state]
  end

  local function join(id, job_id)
    add(id, 'total', 1)
    lists.add_pair(lists.under(joined, id), 0, job_id)
  end

  -- Notes a change of a member's state.
  local function move(id, from, to)
    if count_of(from) then add(id, count_of(from), -1) end
    if count_of(to) then add(id, count_of(to), 1) end
  end

  -- Removes a waiting member from the batch as if it had never belonged there, because the job gets the content of
  -- another push.
  local function leave(id, job_id)
    add(id, 'total', -1)
    table.insert(lists.under(left, id), job_id)
  end

  -- Notes that an operator deleted a member. `write` no longer counts a member that succeeded or was discarded. It
  -- counts any other member as deleted.
  local function lose(id, job_id, state)
    if state == layout.STATE.succeeded or state == layout.STATE.discarded then
      add(id, 'total', -1)
      add(id, count_of(state), -1)
    else
      if count_of(state) then add(id, count_of(state), -1) end
      add(id, 'deleted', 1)
    end
    table.insert(lists.under(left, id), job_id)
  end

  -- Notes that a member of a complete batch was removed after its retention.
  local function forget(id, job_id)
    add(id, 'gone', 1)
    table.insert(lists.under(left, id), job_id)
  end

  -- Replaces the outcome of a nested batch in the counts of its parent. `told`: the outcome that is counted there;
  -- `now`: the new outcome. The outcome of a batch that is not over is ''.
  local function tell_parent(parent, told, now)
    if told ~= '' then add(parent, 'batches_' .. told, -1) end
    if now ~= '' then add(parent, 'batches_' .. now, 1) end
  end

  local function settle(id, now_ms)
    local move, key = changes_of[id], tag .. 'batch:' .. id
    changes_of[id] = nil
    local fields = {'state', 'total', 'succeeded', 'discarded', 'failed', 'canceled', 'skipped', 'deleted', 'gone',
      'batches', 'batches_succeeded', 'batches_failed', 'parent', 'told', 'canceled_at_ms', 'on_success', 'on_complete',
      'on_failure', 'changes'}
    local values = redis.pcall('HMGET', key, unpack(fields))
    -- Do nothing if the batch was removed or its key was overwritten. The members continue without a batch.
    if values.err or not values[1] then return end
    local batch, changed = {}, {}
    for n, field in ipairs(fields) do
      if n >= FIRST_COUNT and n <= LAST_COUNT then
        batch[field] = tonumber(values[n] or 0) + (move[field] or 0)
        if move[field] and move[field] ~= 0 then lists.add_pair(changed, field, batch[field]) end
      else
        batch[field] = values[n] or ''
      end
    end
    local function set(field, value)
      if batch[field] == value then return end
      batch[field] = value
      lists.add_pair(changed, field, value)
    end
    local not_good = batch.failed + batch.canceled + batch.skipped + batch.deleted
    local unfinished = batch.total - batch.succeeded - batch.discarded - not_good
      + batch.batches - batch.batches_succeeded - batch.batches_failed
    local was_complete = batch.state == 'complete'
    local is_complete = batch.state ~= 'open' and unfinished == 0
    local has_succeeded = is_complete and not_good + batch.batches_failed == 0 and batch.canceled_at_ms == ''
    if is_complete ~= was_complete then
      set('state', is_complete and 'complete' or 'sealed')
      lists.add_pair(changed, 'completed_at_ms', is_complete and string.format('%.0f', now_ms) or '')
      -- Schedule a check of a complete batch for now. Do not check an incomplete one, so that it does not expire while
      -- members are retried.
      if is_complete then redis.call('ZADD', tag .. 'batches_due', now_ms, id)
      else redis.call('ZREM', tag .. 'batches_due', id) end
    end
    local is_due = is_complete and not was_complete
    local function call(callback, when)
      if when and batch[callback] == 'waiting' then
        set(callback, 'due')
        is_due = true
      end
    end
    call('on_complete', is_complete)
    call('on_success', has_succeeded)
    call('on_failure', batch.failed + batch.batches_failed > 0)
    if batch.parent ~= '' then
      local now = not is_complete and '' or has_succeeded and 'succeeded' or 'failed'
      if now ~= batch.told then
        tell_parent(batch.parent, batch.told, now)
        set('told', now)
      end
    end
    if is_due then follow_ups.add('batch', id) end
    if #changed > 0 then
      lists.add_pair(changed, 'changes', string.format('%.0f', tonumber(batch.changes) + 1))
      redis.call('HSET', key, unpack(changed))
    end
    if left[id] then lists.call('ZREM', tag .. 'batch_members:' .. id, left[id]) end
    if joined[id] then lists.zadd(tag .. 'batch_members:' .. id, joined[id]) end
  end

  -- Writes the noted changes and their consequences.
  local function write(now_ms)
    -- Use a loop that sees new elements, because `settle` appends parents after their children.
    local n = 1
    while touched[n] do
      settle(touched[n], now_ms)
      n = n + 1
    end
    follow_ups.write()
  end

  -- Closes the batch for new members, and asks the leader to cancel the unfinished ones. `canceled_at_ms`: the present
  -- value of this field; empty if the batch was not canceled before. The caller calls `write` afterwards.
  local function cancel(id, now_ms, canceled_at_ms)
    local key = tag .. 'batch:' .. id
    if canceled_at_ms == '' then redis.call('HSET', key, 'canceled_at_ms', string.format('%.0f', now_ms)) end
    if redis.call('HGET', key, 'state') == 'open' then redis.call('HSET', key, 'state', 'sealed') end
    touch(id)
    follow_ups.add('batch_cancel', id)
  end

  -- Returns why a batch takes no new members; nil: it takes them. 'unknown': it does not exist. 'over': it is complete
  -- or canceled.
  local function refusal(id)
    local values = redis.pcall('HMGET', tag .. 'batch:' .. id, 'state', 'canceled_at_ms')
    if values.err or not values[1] then return 'unknown' end
    return (values[1] == 'complete' or (values[2] or '') ~= '') and 'over' or nil
  end

  -- Returns whether a batch was created by a call that has never filled it.
  local function is_unfilled(id)
    local values = redis.call('HMGET', tag .. 'batch:' .. id, 'filled_by', 'state', 'changes', 'canceled_at_ms')
    return values[1] and values[2] == 'open' and values[3] == '0' and not values[4]
  end

  -- Removes a batch as if it had never been created. The caller calls `write` afterwards.
  local function drop(id)
    local key = tag .. 'batch:' .. id
    local parent = redis.call('HGET', key, 'parent') or ''
    redis.call('UNLINK', key, tag .. 'batch_members:' .. id, tag .. 'batch_children:' .. id)
    redis.call('ZREM', tag .. 'batches', id)
    redis.call('ZREM', tag .. 'batches_due', id)
    if parent ~= '' then
      redis.call('SREM', tag .. 'batch_children:' .. parent, id)
      add(parent, 'batches', -1)
    end
  end

  -- Returns whether the members of a batch are still needed. 'must': the batch is not complete. 'may': the batch is
  -- complete without success, and may be retried. nil: they are not needed.
  local function need_of(id)
    local key = tag .. 'batch:' .. id
    local values = redis.pcall('HMGET', key, 'state', 'failed', 'canceled', 'skipped', 'deleted', 'batches_failed')
    if values.err or not values[1] then return nil end
    if values[1] ~= 'complete' then return 'must' end
    for n = 2, #values do
      if (tonumber(values[n] or 0)) > 0 then return 'may' end
    end
    return nil
  end

  return {
    touch = touch, add = add, join = join, move = move, leave = leave, lose = lose, forget = forget, write = write,
    cancel = cancel, refusal = refusal, is_unfilled = is_unfilled, drop = drop, need_of = need_of,
  }
end)
