-- The run records of definitions, one for each instant or event: `due_at_ms outcome reason job_id recorded_at_ms`. The
-- record of an event ends with the ID of the event. If a calendar moved an instant, the record ends with `moved:` and
-- the original time. The name of such an instant has both times: `due_at_ms:moved_from_ms`.
local run_records = (function()
  local tag = ARGV.tag
  local max_runs, life_ms = tonumber(ARGV.max_runs), tonumber(ARGV.runs_life_ms)

  local function key_of(name)
    return tag .. 'runs:' .. name
  end

  -- Splits the name of an instant. Returns its due time, and the text at the end of its record.
  local function parts_of(instant)
    local due_at_ms, moved_from_ms = string.match(instant, '^([^:]+):(.+)$')
    return due_at_ms or instant, moved_from_ms and ' moved:' .. moved_from_ms or ''
  end

  -- Returns the record of an instant; nil if there is none.
  local function at(name, instant)
    local due_at_ms, ending = parts_of(instant)
    for _, run in ipairs(redis.call('ZRANGEBYSCORE', key_of(name), due_at_ms, due_at_ms)) do
      if (string.match(run, ' moved:%-?%d+$') or '') == ending then return run end
    end
    return nil
  end

  -- Returns whether any record has this due time.
  local function has_any(name, due_at_ms)
    return redis.call('ZCOUNT', key_of(name), due_at_ms, due_at_ms) > 0
  end

  -- Replaces the record of an instant.
  local function put(name, instant, outcome, reason, job_id, now_ms)
    local key, present, due_at_ms, ending = key_of(name), at(name, instant), parts_of(instant)
    if present then redis.call('ZREM', key, present) end
    redis.call('ZADD', key, due_at_ms,
      table.concat({due_at_ms, outcome, reason, job_id, string.format('%.0f', now_ms)}, ' ') .. ending)
  end

  -- The memory of removed records, stored as `did until_ms first_ms`. `until_ms`: the last instant whose record
  -- may have been removed. `first_ms`: the first instant that still has a record. Each is nil if there is no such
  -- instant.
  local function number_or_empty(ms)
    return ms and string.format('%.0f', ms) or ''
  end

  local function text_of(memory)
    return table.concat({memory.did, number_or_empty(memory.until_ms), number_or_empty(memory.first_ms)}, ' ')
  end

  local function first_of(name)
    return tonumber(redis.call('ZRANGE', key_of(name), 0, 0, 'WITHSCORES')[2])
  end

  -- Returns the memory of a definition's removed records. `did`: the incarnation of the definition. `text`: the
  -- stored form (false: none). `handled_ms`: the last instant that may have a record. The stored form may be out of
  -- date, because masters of older releases remove records without updating it.
  local function memory_of(name, did, text, handled_ms)
    local its_did, until_text, first_text = string.match(text or '', '^(%S+) (%S*) (%S*)$')
    local is_known, noted_ms = its_did == did, tonumber(first_text)
    local memory = {did = did, text = text, until_ms = is_known and tonumber(until_text) or nil,
      first_ms = first_of(name)}
    if not is_known or noted_ms and (not memory.first_ms or memory.first_ms > noted_ms) then
      local lost_ms = memory.first_ms and memory.first_ms - 1 or handled_ms
      memory.until_ms = math.max(memory.until_ms or lost_ms, lost_ms)
    end
    return memory
  end

  local PAGE, MAX_PAGES = 100, 10
  -- Removes records that exceed the limit of number or age. Updates `memory` and writes it to `memory_key`. `memory` is
  -- nil if no backfill needs these records.
  local function trim(name, now_ms, memory, memory_key)
    local key = key_of(name)
    local function remove(count)
      if memory then
        local last_ms = tonumber(redis.call('ZRANGE', key, count - 1, count - 1, 'WITHSCORES')[2])
        memory.until_ms = math.max(memory.until_ms or last_ms, last_ms)
      end
      redis.call('ZREMRANGEBYRANK', key, 0, count - 1)
    end
    local excess = redis.call('ZCARD', key) - max_runs
    if excess > 0 then remove(excess) end
    -- The age of a record counts from when it was written, not from its instant. A young record also protects the
    -- records after it.
    for _ = 1, MAX_PAGES do
      local old = 0
      for n, run in ipairs(redis.call('ZRANGE', key, 0, PAGE - 1)) do
        local recorded_ms = tonumber(string.match(run, '^%S+ %S* %S* %S* (%d+)'))
        if not recorded_ms or recorded_ms >= now_ms - life_ms then break end
        old = n
      end
      if old > 0 then remove(old) end
      if old < PAGE then break end
    end
    if memory then
      memory.first_ms = first_of(name)
      local text = text_of(memory)
      if text ~= memory.text then redis.call('HSET', memory_key, name, text) end
    end
  end

  local CHUNK = 1000
  -- By definition: records of events that are not written yet. Several of them may have the same instant.
  local added = {}

  -- Adds the run record of an event, which `write_added` writes.
  local function add(name, at_text, outcome, reason, job_id, now_text, event_id)
    local list = added[name]
    if not list then
      list = {}
      added[name] = list
    end
    local n = #list
    list[n + 1], list[n + 2] = at_text, table.concat({at_text, outcome, reason, job_id, now_text, event_id}, ' ')
  end

  -- Writes the added records.
  local function write_added(now_ms)
    for name, list in pairs(added) do
      -- Write in chunks, because one command accepts only some thousands of members.
      for first = 1, #list, CHUNK do
        redis.call('ZADD', key_of(name), unpack(list, first, math.min(first + CHUNK - 1, #list)))
      end
      trim(name, now_ms)
    end
  end

  return {
    at = at, has_any = has_any, put = put, memory_of = memory_of, trim = trim, add = add, write_added = write_added,
  }
end)()
