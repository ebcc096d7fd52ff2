-- include lib/lazily.lua
-- include lib/jobs/record.lua
-- include lib/lists.lua
-- include lib/jobs/follow_ups.lua
-- Predecessors and dependents. The hash `awaits:{job_id}` has the predecessors for which a job waits.
-- `dependents:{job_id}` has the dependents of a predecessor, and the set `awaited` has all predecessors. When a
-- predecessor ends, a follow-up `order:{job_id}` is written, and jobs/release_dependents.lua starts or skips its
-- dependents.
local dependents = lazily.made_by(function()
  local tag = ARGV.tag
  local WHEN_FINISHED, ID_LENGTH = '2', 36
  -- Limits of one call: how many dependents of a finished job it checks, to find out whether the job is still needed;
  -- and how many predecessors of a skipped job it checks.
  local MAX_LOOKED_AT, MAX_PREDECESSORS = 100, 20
  -- The score of a dependent in `dependents:{job_id}` tells the state of the dependent at the last check.
  local OVER, MAY_RUN_AGAIN, UNFINISHED = 0, 0.5, 1
  local noted = {}

  -- Returns the state of a job; nil if its record does not exist or cannot be read.
  local function state_of(id)
    local code = redis.pcall('GETRANGE', tag .. 'job:' .. id, layout.state.offset, layout.state.offset)
    return type(code) == 'string' and string.byte(code) or nil
  end

  local function is_over(state)
    local is_unfinished = layout.is_unfinished
    return not (state and is_unfinished[state])
  end

  -- Returns whether a predecessor meets the condition `when` of its dependent. `state`: of the predecessor; nil:
  -- deleted.
  local function is_met(state, when)
    return state == layout.STATE.succeeded or when == WHEN_FINISHED and is_over(state)
  end

  -- Returns the predecessors of a job and the condition for them, from the extras of its record; nil: there are none.
  local function after_of(key, head)
    local ok, fields = pcall(cmsgpack.unpack, record.extras_of(key, head))
    local after = ok and type(fields) == 'table' and fields.after
    if type(after) ~= 'table' or type(after[2]) ~= 'string' then return nil end
    local ids = {}
    for at = 1, #after[2], ID_LENGTH do ids[#ids + 1] = string.sub(after[2], at, at + ID_LENGTH - 1) end
    return ids, tostring(after[1])
  end

  -- Notes a job with the flag `followed` that has ended, or is unfinished again. `write` adds a follow-up for it, which
  -- updates the job's dependents.
  local function note(id)
    noted[#noted + 1] = id
  end

  -- Removes the list of predecessors for which a job waits.
  local function forget(id)
    redis.call('UNLINK', tag .. 'awaits:' .. id)
  end

  -- Adds a follow-up for each noted job that has dependents. The caller calls `follow_ups.write` afterwards.
  local function write()
    if #noted == 0 then return end
    for n, has_dependents in ipairs(redis.call('SMISMEMBER', tag .. 'awaited', unpack(noted))) do
      if has_dependents == 1 then follow_ups.add('order', noted[n]) end
    end
    noted = {}
  end

  local function is_awaited(id)
    return redis.call('SISMEMBER', tag .. 'awaited', id) == 1
  end

  -- Returns the flags of a job with a dependent. These flags make the job report its end and keep its result.
  local function awaited_flags(flags)
    for _, flag in ipairs({layout.FLAG.followed, layout.FLAG.keep_result}) do
      if not record.has_flag(flags, flag) then flags = flags + flag end
    end
    return flags
  end

  -- Lists a job as a dependent of one of its predecessors, which may have ended or been deleted.
  local function join(id, predecessor)
    redis.call('ZADD', tag .. 'dependents:' .. predecessor, UNFINISHED, id)
    redis.call('SADD', tag .. 'awaited', predecessor)
    local key = tag .. 'job:' .. predecessor
    local head = record.beginning(key, layout.flags.last)
    if #head == layout.flags.last then
      local flags = record.flags_of(head)
      if awaited_flags(flags) ~= flags then record.set_flags(key, awaited_flags(flags)) end
    end
  end

  -- Makes the job wait for these predecessors. Adds a follow-up for each predecessor that is already over.
  local function wait(id, predecessors, when)
    for _, predecessor in ipairs(predecessors) do
      redis.call('HSET', tag .. 'awaits:' .. id, predecessor, when)
      join(id, predecessor)
      if is_over(state_of(predecessor)) then follow_ups.add('order', predecessor) end
    end
  end

  local function may_run_again(state)
    return state == layout.STATE.failed or state == layout.STATE.canceled or state == layout.STATE.skipped
  end

  -- Checks at most MAX_LOOKED_AT dependents with the score `at`, and updates their scores. Returns whether they need
  -- the job, and how many were checked. 'must': an unfinished dependent needs it. 'may': a dependent would need it if
  -- it ran again. nil: no dependent needs it. A skipped dependent needs only predecessors that succeeded.
  local function look(key, at, ended)
    local need, changed = nil, {}
    local found = redis.call('ZRANGEBYSCORE', key, at, at, 'LIMIT', 0, MAX_LOOKED_AT)
    for _, dependent in ipairs(found) do
      local state = state_of(dependent)
      local score = not is_over(state) and UNFINISHED or may_run_again(state) and MAY_RUN_AGAIN or OVER
      if score == UNFINISHED then
        need = 'must'
      elseif score == MAY_RUN_AGAIN and (state ~= layout.STATE.skipped or ended == layout.STATE.succeeded) then
        need = need or 'may'
      end
      if score ~= at then lists.add_pair(changed, score, dependent) end
    end
    lists.zadd(key, changed)
    return need, #found
  end

  -- Returns whether dependents need the record and the result of a job that has ended in the state `ended`: see `look`.
  local function need_of(id, ended)
    local key = tag .. 'dependents:' .. id
    local need, count = look(key, UNFINISHED, ended)
    -- If this call has reached its limit, assume that the job is needed. The next call checks other dependents.
    if need == 'must' or count == MAX_LOOKED_AT then return 'must' end
    return (look(key, MAY_RUN_AGAIN, ended)) or need
  end

  -- Updates the score of a job in the lists of its predecessors, because the job is unfinished again.
  local function come_back(id, key, head)
    for _, predecessor in ipairs(after_of(key, head) or {}) do
      redis.call('ZADD', tag .. 'dependents:' .. predecessor, 'XX', UNFINISHED, id)
    end
  end

  -- Returns whether a retry of a predecessor would revive a job that was skipped because of it. All predecessors that
  -- have not succeeded must still exist. Checks only the first MAX_PREDECESSORS predecessors.
  local function may_be_revived(id, key, head)
    local root = redis.call('HGET', tag .. 'awaits:' .. id, 'root')
    -- Check the root cause, too, because in a long chain all jobs depend on it.
    if root and not state_of(string.sub(root, 1, ID_LENGTH)) then return false end
    local ids, when = after_of(key, head)
    for n = 1, math.min(ids and #ids or 0, MAX_PREDECESSORS) do
      local state = state_of(ids[n])
      if not state and not is_met(state, when) then return false end
    end
    return ids ~= nil
  end

  -- Returns why a job that waits for predecessors would never start; empty: no fault. Checks at most `most`
  -- predecessors.
  local function fault_of(id, most)
    local key = tag .. 'awaits:' .. id
    local count = redis.pcall('HLEN', key)
    if type(count) ~= 'number' or count == 0 or redis.call('HEXISTS', key, 'root') == 1 then return 'awaits no job' end
    local pending = redis.call('HKEYS', key)
    for n = 1, math.min(count, most) do
      local predecessor = pending[n]
      local head = record.beginning(tag .. 'job:' .. predecessor, layout.flags.last)
      if not redis.call('ZSCORE', tag .. 'dependents:' .. predecessor, id) or not is_awaited(predecessor) then
        return 'awaits job ' .. predecessor .. ', which does not list it as a dependent'
      end
      if is_over(record.state_of(head)) then
        if not redis.call('ZSCORE', tag .. 'follow_ups', 'order:' .. predecessor) then
          return 'awaits job ' .. predecessor .. ', which is over'
        end
      elseif not record.has_flag(record.flags_of(head), layout.FLAG.followed) then
        return 'awaits job ' .. predecessor .. ', whose end would go unnoticed'
      end
    end
    return ''
  end

  -- Makes a job that would never start (see `fault_of`) wait for all of its predecessors again. Returns false if the
  -- job's record names no predecessors. The caller writes the follow-ups.
  local function wait_again(id, key, head)
    local ids, when = after_of(key, head)
    if not ids then return false end
    forget(id)
    for _, predecessor in ipairs(ids) do
      if not is_met(state_of(predecessor), when) then wait(id, {predecessor}, when) end
    end
    -- If all predecessors have ended as required, there is nothing left to wait for. Let the job wait for the last one:
    -- the follow-up of that predecessor then starts the job.
    if redis.call('EXISTS', tag .. 'awaits:' .. id) == 0 then wait(id, {ids[#ids]}, when) end
    return true
  end

  return {
    state_of = state_of, is_over = is_over, is_met = is_met, after_of = after_of, note = note, forget = forget,
    write = write, is_awaited = is_awaited, awaited_flags = awaited_flags, wait = wait, need_of = need_of,
    come_back = come_back, may_be_revived = may_be_revived,
    fault_of = fault_of, wait_again = wait_again,
  }
end)
