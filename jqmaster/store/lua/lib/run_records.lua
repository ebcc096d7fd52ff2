-- The run records of definitions: one for each instant, as `due_at_ms outcome reason job_id recorded_at_ms`.
local run_records = (function()
  local tag = ARGV.tag
  local max_runs, oldest_ms = tonumber(ARGV.max_runs), ARGV.oldest_run_ms

  local function key_of(name)
    return tag .. 'runs:' .. name
  end

  -- The record of an instant; nil where there is none.
  local function at(name, due_at_ms)
    return redis.call('ZRANGEBYSCORE', key_of(name), due_at_ms, due_at_ms)[1]
  end

  -- Puts the record of an instant in the place of the one that it has.
  local function put(name, due_at_ms, outcome, reason, job_id, now_ms)
    local key = key_of(name)
    redis.call('ZREMRANGEBYSCORE', key, due_at_ms, due_at_ms)
    redis.call('ZADD', key, due_at_ms,
      table.concat({due_at_ms, outcome, reason, job_id, string.format('%.0f', now_ms)}, ' '))
  end

  -- Removes the records that are too many or too old.
  local function trim(name)
    redis.call('ZREMRANGEBYSCORE', key_of(name), '-inf', '(' .. oldest_ms)
    redis.call('ZREMRANGEBYRANK', key_of(name), 0, -(max_runs + 1))
  end

  return {at = at, put = put, trim = trim}
end)()
