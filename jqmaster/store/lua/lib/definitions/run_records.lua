-- The run records of definitions, as `due_at_ms outcome reason job_id recorded_at_ms`: one for each instant, or one for
-- each event, with its ID behind.
local run_records = (function()
  local tag = ARGV.tag
  local max_runs, life_ms = tonumber(ARGV.max_runs), tonumber(ARGV.runs_life_ms)

  local function key_of(name)
    return tag .. 'runs:' .. name
  end

  -- The record of an instant; nil where there is none.
  local function at(name, due_at_ms)
    return redis.call('ZRANGEBYSCORE', key_of(name), due_at_ms, due_at_ms)[1]
  end

  -- Replaces the record of an instant.
  local function put(name, due_at_ms, outcome, reason, job_id, now_ms)
    local key = key_of(name)
    redis.call('ZREMRANGEBYSCORE', key, due_at_ms, due_at_ms)
    redis.call('ZADD', key, due_at_ms,
      table.concat({due_at_ms, outcome, reason, job_id, string.format('%.0f', now_ms)}, ' '))
  end

  -- Removes the records that are too many or too old.
  local function trim(name, now_ms)
    redis.call('ZREMRANGEBYSCORE', key_of(name), '-inf', '(' .. string.format('%.0f', now_ms - life_ms))
    redis.call('ZREMRANGEBYRANK', key_of(name), 0, -(max_runs + 1))
  end

  local CHUNK = 1000
  -- Records of events, by definition: several may have the same instant.
  local added = {}

  -- Gathers the record of an event.
  local function add(name, at_text, outcome, reason, job_id, now_text, event_id)
    local list = added[name]
    if not list then
      list = {}
      added[name] = list
    end
    local n = #list
    list[n + 1], list[n + 2] = at_text, table.concat({at_text, outcome, reason, job_id, now_text, event_id}, ' ')
  end

  -- Writes what was gathered.
  local function write_added(now_ms)
    for name, list in pairs(added) do
      -- A command takes some thousands of members at most.
      for first = 1, #list, CHUNK do
        redis.call('ZADD', key_of(name), unpack(list, first, math.min(first + CHUNK - 1, #list)))
      end
      trim(name, now_ms)
    end
  end

  return {at = at, put = put, trim = trim, add = add, write_added = write_added}
end)()
