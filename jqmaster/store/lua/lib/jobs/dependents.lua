-- include lib/lazily.lua
-- include lib/jobs/record.lua
-- include lib/lists.lua
-- include lib/jobs/follow_ups.lua
-- The order of jobs. A job that waits for others has them in the hash `awaits:{job_id}`; each of these has its
-- dependents in `dependents:{job_id}`, and is in the set `awaited`. Its end writes an entry of the follow-ups,
-- `order:` and its ID: jobs/release_dependents.lua makes its dependents agree with it.
local dependents = lazily.made_by(function()
  local tag = ARGV.tag
  local WHEN_FINISHED, ID_LENGTH = '2', 36
  -- Dependents that one call looks at to learn whether a job that is over is still needed, and predecessors of one that
  -- was skipped.
  local MOST_LOOKED_AT, MOST_PREDECESSORS = 100, 20
  -- The score of a dependent: what it was when it was last looked at.
  local OVER, MAY_RUN_AGAIN, UNFINISHED = 0, 0.5, 1
  local noted = {}

  -- Returns the state of a job; nil if it has no record, or none that can be read.
  local function state_of(id)
    local code = redis.pcall('GETRANGE', tag .. 'job:' .. id, layout.state.offset, layout.state.offset)
    return type(code) == 'string' and string.byte(code) or nil
  end

  local function is_over(state)
    local is_unfinished = layout.is_unfinished
    return not (state and is_unfinished[state])
  end

  -- Returns whether a predecessor in this state (nil: it is gone) is what a job waits for.
  local function is_met(state, when)
    return state == layout.STATE.succeeded or when == WHEN_FINISHED and is_over(state)
  end

  -- The predecessors of a job, and what it waits for, as its extras tell; nil where they do not.
  local function after_of(key, head)
    local ok, fields = pcall(cmsgpack.unpack, record.extras_of(key, head))
    local after = ok and type(fields) == 'table' and fields.after
    if type(after) ~= 'table' or type(after[2]) ~= 'string' then return nil end
    local ids = {}
    for at = 1, #after[2], ID_LENGTH do ids[#ids + 1] = string.sub(after[2], at, at + ID_LENGTH - 1) end
    return ids, tostring(after[1])
  end

  -- Notes that a job with the flag `followed` has ended, or is unfinished again: its dependents, if any, are to know.
  local function note(id)
    noted[#noted + 1] = id
  end

  -- The job waits for no other any more.
  local function forget(id)
    redis.call('UNLINK', tag .. 'awaits:' .. id)
  end

  -- Writes what was noted. The caller writes the follow-ups afterwards.
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

  -- Returns the flags of a job that has dependents: its end is reported, and its result kept for them.
  local function awaited_flags(flags)
    for _, flag in ipairs({layout.FLAG.followed, layout.FLAG.keep_result}) do
      if not record.has_flag(flags, flag) then flags = flags + flag end
    end
    return flags
  end

  -- Makes a job known to one of its predecessors, which may be over or gone.
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

  -- Makes the job wait for these predecessors. The leader has to look at those that are already over.
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

  -- Looks at MOST_LOOKED_AT dependents with the score `at`, and gives each the score of its present state. Returns
  -- 'must' if one of them is unfinished, 'may' if one may be run again and would need the job, nil if none does; and
  -- their number. A skipped job needs its predecessors that succeeded. It is kept because of the others, but they are
  -- not kept because of it.
  local function look(key, at, ended)
    local need, changed = nil, {}
    local found = redis.call('ZRANGEBYSCORE', key, at, at, 'LIMIT', 0, MOST_LOOKED_AT)
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

  -- Returns whether dependents of a job that is over, in the state `ended`, need its record and its result: 'must'
  -- while one is unfinished, 'may' while one may be run again, nil otherwise.
  local function need_of(id, ended)
    local key = tag .. 'dependents:' .. id
    local need, count = look(key, UNFINISHED, ended)
    -- The rest is looked at the next time.
    if need == 'must' or count == MOST_LOOKED_AT then return 'must' end
    return (look(key, MAY_RUN_AGAIN, ended)) or need
  end

  -- The job is unfinished again: its predecessors are to know.
  local function come_back(id, key, head)
    for _, predecessor in ipairs(after_of(key, head) or {}) do
      redis.call('ZADD', tag .. 'dependents:' .. predecessor, 'XX', UNFINISHED, id)
    end
  end

  -- Returns whether a job that was skipped because of a predecessor would be revived if that is retried: all that it
  -- lacks are still there, as far as its first predecessors tell.
  local function may_be_revived(id, key, head)
    local root = redis.call('HGET', tag .. 'awaits:' .. id, 'root')
    -- In a long chain, all go with the first.
    if root and not state_of(string.sub(root, 1, ID_LENGTH)) then return false end
    local ids, when = after_of(key, head)
    for n = 1, math.min(ids and #ids or 0, MOST_PREDECESSORS) do
      local state = state_of(ids[n])
      if not state and not is_met(state, when) then return false end
    end
    return ids ~= nil
  end

  -- Returns why nothing would ever start a job that awaits others; empty if something will. Looks at `most`
  -- predecessors at most.
  local function fault_of(id, most)
    local key = tag .. 'awaits:' .. id
    local count = redis.pcall('HLEN', key)
    if type(count) ~= 'number' or count == 0 or redis.call('HEXISTS', key, 'root') == 1 then return 'awaits no job' end
    local pending = redis.call('HKEYS', key)
    for n = 1, math.min(count, most) do
      local predecessor = pending[n]
      local head = record.beginning(tag .. 'job:' .. predecessor, layout.flags.last)
      if not redis.call('ZSCORE', tag .. 'dependents:' .. predecessor, id) or not is_awaited(predecessor) then
        return 'is not known to job ' .. predecessor .. ', which it awaits'
      end
      if is_over(record.state_of(head)) then
        if not redis.call('ZSCORE', tag .. 'follow_ups', 'order:' .. predecessor) then
          return 'awaits job ' .. predecessor .. ', which is over'
        end
      elseif not record.has_flag(record.flags_of(head), layout.FLAG.followed) then
        return 'awaits job ' .. predecessor .. ', whose end nobody would hear of'
      end
    end
    return ''
  end

  -- Makes such a job wait for all of its predecessors again. The caller writes the follow-ups. Returns whether its
  -- record tells which these are.
  local function wait_again(id, key, head)
    local ids, when = after_of(key, head)
    if not ids then return false end
    forget(id)
    for _, predecessor in ipairs(ids) do
      if not is_met(state_of(predecessor), when) then wait(id, {predecessor}, when) end
    end
    -- Predecessors that ended as needed are left out. If none is left, the job waits for the last, and the leader
    -- starts it.
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
