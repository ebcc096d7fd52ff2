-- Finds and repairs faults in the logs of jobs.
-- include lib/logs/job_logs.lua
local log_faults = (function()
  local tag = ARGV.tag
  -- MAX_CHUNKS: maximum number of chunks of a log whose sizes are added up. MAX_LOGS: maximum number of logs whose
  -- sizes are added up. Beyond these limits, sizes are not checked, because adding them up would block the store.
  local MAX_CHUNKS, MAX_LOGS = 32, 10000
  local SIZE = 6

  local function look(id)
    local hash = redis.pcall('HMGET', tag .. 'log:' .. id, 'size', 'record')
    local chunks = redis.pcall('XRANGE', tag .. 'logs:' .. id, '-', '+', 'COUNT', MAX_CHUNKS + 1)
    local found = {is_damaged = hash.err ~= nil, has_damaged_chunks = chunks.err ~= nil,
      has_hash = redis.call('EXISTS', tag .. 'log:' .. id) == 1,
      has_job = redis.call('EXISTS', tag .. 'job:' .. id) == 1,
      is_listed = redis.call('SISMEMBER', tag .. 'logged', id) == 1,
      has_time = redis.call('ZSCORE', tag .. 'log_times', id) ~= false,
      waits = redis.call('ZSCORE', tag .. 'log_waits', id) ~= false,
      is_erased = redis.call('ZSCORE', tag .. 'log_erasures', id) ~= false
        or redis.call('ZSCORE', tag .. 'log_erased', id) ~= false,
      is_id = #id == 36 and string.match(id, '^[0-9a-f%-]+$') ~= nil}
    found.has_record = not found.is_damaged and hash[2] ~= false
    found.length = #chunks
    found.size = not found.is_damaged and job_logs.number(hash[1]) or 0
    if found.length <= MAX_CHUNKS then
      found.counted = 0
      for _, chunk in ipairs(chunks) do
        found.counted = found.counted + job_logs.number(chunk[2][SIZE])
        found.last = chunk[1]
      end
    end
    return found
  end

  local function fault_in(log)
    if log.is_erased and not log.is_id then return 'is to be removed from the archive, but no job can have this ID' end
    if log.is_damaged or log.has_damaged_chunks then return 'a key has the wrong type' end
    if (log.has_hash or log.length > 0) and not log.is_listed then return 'is not listed' end
    if log.is_listed and not log.has_hash then return 'is listed but does not exist' end
    if log.counted and log.counted ~= log.size then
      return string.format('counts %.0f bytes, and has %.0f', log.size, log.counted)
    end
    if log.length > 0 and not log.has_time then return 'its age is not tracked' end
    if log.length == 0 and log.has_time then return 'has an age but no lines' end
    if log.waits and log.has_job then return 'waits for the archive although its job exists' end
    if log.waits and not log.has_record then return 'waits for the archive without the record of its job' end
    return ''
  end

  -- Returns the fault of a job's log as a text; empty: the log is sound or does not exist.
  local function of(id)
    return fault_in(look(id))
  end

  -- Returns the fault of the sum of all sizes as a text, and the correct sum. The text is empty if there is no fault,
  -- or if there are too many logs to add up.
  local function of_total()
    if redis.call('SCARD', tag .. 'logged') > MAX_LOGS then return '', 0 end
    local sum = 0
    for _, id in ipairs(redis.call('SMEMBERS', tag .. 'logged')) do
      local size = redis.pcall('HGET', tag .. 'log:' .. id, 'size')
      sum = sum + (type(size) == 'string' and job_logs.number(size) or 0)
    end
    local total = redis.pcall('HGET', tag .. 'log_totals', 'size')
    total = type(total) == 'string' and tonumber(total) or 0
    return total ~= sum and string.format('counts %.0f bytes, and the logs have %.0f', total, sum) or '', sum
  end

  local function forget_rest(id)
    job_logs.forget(id)
    redis.call('UNLINK', tag .. 'log:' .. id, tag .. 'logs:' .. id)
    redis.call('ZREM', tag .. 'log_times', id)
    redis.call('ZREM', tag .. 'log_waits', id)
  end

  -- Repairs a faulty log. Removes it if it cannot be read at all.
  local function mend(id, now_ms)
    local log = look(id)
    if log.is_erased and not log.is_id then
      redis.call('ZREM', tag .. 'log_erasures', id)
      redis.call('ZREM', tag .. 'log_erased', id)
    end
    if log.is_damaged then redis.call('UNLINK', tag .. 'log:' .. id) end
    if log.has_damaged_chunks then redis.call('UNLINK', tag .. 'logs:' .. id) end
    local waits = log.waits and not log.has_job
    if not log.has_job and not (waits and log.has_record and log.length > 0) then return forget_rest(id) end
    if log.waits and log.has_job then
      redis.call('ZREM', tag .. 'log_waits', id)
      redis.call('HDEL', tag .. 'log:' .. id, 'record')
    end
    if log.length == 0 and (log.is_damaged or not log.has_hash) then return forget_rest(id) end
    redis.call('SADD', tag .. 'logged', id)
    if log.counted then redis.call('HSET', tag .. 'log:' .. id, 'size', string.format('%.0f', log.counted)) end
    if (log.is_damaged or not log.has_hash) and log.last then
      redis.call('HSET', tag .. 'log:' .. id, 'last', (string.match(log.last, '^%d+')))
    end
    if log.length == 0 then
      redis.call('ZREM', tag .. 'log_times', id)
    elseif not log.has_time then
      redis.call('ZADD', tag .. 'log_times', string.format('%.0f', now_ms), id)
    end
  end

  return {of = of, of_total = of_total, mend = mend}
end)()
