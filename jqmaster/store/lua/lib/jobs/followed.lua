-- include lib/lazily.lua
-- include lib/jobs/record.lua
-- include lib/batches/batches.lua
-- include lib/jobs/follow_ups.lua
-- include lib/jobs/dependents.lua
-- Jobs whose ends have consequences for batches, dependents or webhooks. Their records have the flag `followed`, and
-- their extras name the consequences. For a job without the flag, only the flag is tested.
local followed = lazily.made_by(function()
  local tag = ARGV.tag
  local FLAG, JOB_PREFIX_LENGTH = layout.FLAG.followed, #(tag .. 'job:')
  -- By extras: the facts in them. Cached, because many jobs of one batch have equal extras.
  local facts_of_extras = {}

  local function is_followed(head)
    return head ~= '' and record.has_flag(record.flags_of(head), FLAG)
  end

  -- Returns facts from the record of a job with the flag `followed`. `batch`: its batch; nil: none. `told`: by state
  -- code, whether an end in that state is reported; nil: no end is reported.
  local function facts_of(key, head)
    local extras = record.extras_of(key, head)
    local facts = facts_of_extras[extras]
    if facts then return facts end
    facts = {}
    local ok, fields = pcall(cmsgpack.unpack, extras)
    if ok and type(fields) == 'table' then
      if type(fields.batch) == 'string' then facts.batch = fields.batch end
      local states = type(fields.notify) == 'table' and fields.notify[2]
      if type(states) == 'table' then
        facts.told = {}
        for _, code in ipairs(states) do facts.told[code] = true end
      end
    end
    facts_of_extras[extras] = facts
    return facts
  end

  local function batch_of(key, head)
    return facts_of(key, head).batch
  end

  -- `KIND` is the kind, and `end_of` returns the subject, of the follow-up that reports an end.
  local KIND = 'notify'
  local function end_of(id, state, finished_at_ms)
    return id .. ':' .. state .. ':' .. string.format('%.0f', finished_at_ms)
  end

  -- Notes that the job goes from the state in `head` to the state `to`. The caller calls `write` afterwards.
  local function moved(key, head, to, now_ms)
    if not is_followed(head) then return end
    local facts, from, id = facts_of(key, head), record.state_of(head), string.sub(key, JOB_PREFIX_LENGTH + 1)
    if from == layout.STATE.awaiting_jobs or from == layout.STATE.skipped then dependents.forget(id) end
    if dependents.is_over(from) then dependents.come_back(id, key, head) end
    dependents.note(id)
    if facts.batch then batches.move(facts.batch, from, to) end
    if facts.told and facts.told[to] then follow_ups.add(KIND, end_of(id, to, now_ms)) end
  end

  -- Returns whether the end of a finished job has yet to be reported.
  local function is_untold(key, head)
    if not is_followed(head) or not facts_of(key, head).told then return false end
    local finished_at_ms = record.int64(head, layout.finished_at_ms.at)
    local id = string.sub(key, JOB_PREFIX_LENGTH + 1)
    local entry = KIND .. ':' .. end_of(id, record.state_of(head), finished_at_ms)
    return redis.call('ZSCORE', tag .. 'follow_ups', entry) and true or false
  end

  -- Notes that an operator deleted the job.
  local function deleted(id, key, head)
    if not is_followed(head) then return end
    dependents.forget(id)
    dependents.note(id)
    local batch_id = batch_of(key, head)
    if batch_id then batches.lose(batch_id, id, record.state_of(head)) end
  end

  -- Notes that a waiting job leaves its batch, because it gets the content of another push.
  local function replaced(id, key, head)
    if not is_followed(head) then return end
    local batch_id = batch_of(key, head)
    if batch_id then batches.leave(batch_id, id) end
  end

  -- Writes the consequences for dependents and batches.
  local function write(now_ms)
    if lazily.is_made(dependents) then dependents.write() end
    batches.write(now_ms)
  end

  return {
    is_followed = is_followed, batch_of = batch_of, is_untold = is_untold, moved = moved, deleted = deleted,
    replaced = replaced, write = write,
  }
end)
