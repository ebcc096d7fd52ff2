-- The logs of jobs. The stream `logs:{job_id}` has the lines of a job in chunks. The ID of a chunk is `last-0`, where
-- `last` is the number of its last line, counted from 1 over all attempts. The hash `log:{job_id}` has these fields:
--   last           number of the last line
--   dropped        number of missing lines: they exceeded a limit of the store or of the worker
--   size           bytes of the stored chunks that count against the limits
--   token          token of the claim that wrote last
--   worker         worker of that claim
--   attempt        attempt of that claim
--   base           number of the line before the first line of that claim
--   sent           number of the newest line, as the worker of that claim counts
--   late_token     token of the claim before that one, whose last lines may still arrive
--   late_worker    worker of the earlier claim
--   late_attempt   attempt of the earlier claim
--   late_sent      number of the newest line of the earlier claim, as its worker counts
--   archived       number of the last archived line
--   ref            place of the log in the archive, set before anything is archived
--   record         record of a deleted job
--
-- Other keys list jobs:
--   logged         jobs with a log
--   log_times      jobs with stored chunks, by the time of the newest line
--   log_waits      deleted jobs whose logs wait to be archived
--   log_erasures   deleted jobs whose logs must be removed from the archive
--   log_erased     jobs whose logs were removed from the archive recently
-- The field `size` of `log_totals` is the sum of all sizes.
local job_logs = (function()
  local tag = ARGV.tag
  local LINES, SIZE = 4, 6

  local function is_used()
    return redis.call('EXISTS', tag .. 'logged') == 1
  end

  -- Returns fields of a job's log. A damaged key is removed and has no fields.
  local function read(id, ...)
    local found = redis.pcall('HMGET', tag .. 'log:' .. id, ...)
    if not found.err then return found end
    redis.call('UNLINK', tag .. 'log:' .. id)
    return {}
  end

  -- Converts a stored number; 0 if it is missing or damaged.
  local function number(value)
    return value and tonumber(value) or 0
  end

  -- Adds to a count. A damaged count starts anew, because an error here would block all other logs.
  local function add(key, field, by)
    if type(redis.pcall('HINCRBY', key, field, by)) == 'table' then
      redis.pcall('HSET', key, field, string.format('%.0f', math.max(0, by)))
    end
  end

  local function count(id, bytes)
    add(tag .. 'log:' .. id, 'size', bytes)
    add(tag .. 'log_totals', 'size', bytes)
  end

  -- Removes all data of a job's log. Returns whether there was any.
  local function forget(id)
    if redis.call('SREM', tag .. 'logged', id) == 0 then return false end
    local size = number(read(id, 'size')[1])
    if size > 0 then add(tag .. 'log_totals', 'size', -size) end
    redis.call('ZREM', tag .. 'log_times', id)
    redis.call('ZREM', tag .. 'log_waits', id)
    redis.call('UNLINK', tag .. 'log:' .. id, tag .. 'logs:' .. id)
    return true
  end

  -- Removes all data of a deleted job's log, and schedules the removal of the log from the archive.
  local function erase(id, now_ms)
    if read(id, 'ref')[1] then redis.call('ZADD', tag .. 'log_erasures', string.format('%.0f', now_ms), id) end
    forget(id)
  end

  -- Called before a job is removed. Keeps the job's log until the log is archived. Also keeps the record of the job,
  -- which has the job's name and redacted values.
  local function keep_for_archive(id, job_key, now_ms)
    if not redis.call('ZSCORE', tag .. 'log_times', id) then return forget(id) end
    local job = redis.pcall('GET', job_key)
    if type(job) ~= 'string' then return forget(id) end
    redis.call('HSET', tag .. 'log:' .. id, 'record', job)
    redis.call('ZADD', tag .. 'log_waits', string.format('%.0f', now_ms), id)
  end

  -- Removes the oldest chunks of a job's log that end at or before line `last`, at most `most` chunks. Returns the
  -- number of removed lines and bytes, and whether chunks are left.
  local function take_oldest(id, last, most)
    local key, lines, bytes = tag .. 'logs:' .. id, 0, 0
    local chunks = redis.pcall('XRANGE', key, '-', string.format('%.0f', last), 'COUNT', most)
    if chunks.err then
      -- Remove a damaged key.
      redis.call('UNLINK', key)
      chunks = {}
    end
    local oldest
    for _, chunk in ipairs(chunks) do
      lines, bytes, oldest = lines + number(chunk[2][LINES]), bytes + number(chunk[2][SIZE]), chunk[1]
    end
    if oldest then redis.call('XTRIM', key, 'MINID', (string.gsub(oldest, '%-0$', '-1'))) end
    local is_left = #redis.call('XRANGE', key, '-', '+', 'COUNT', 1) > 0
    if not is_left then
      redis.call('UNLINK', key)
      redis.call('ZREM', tag .. 'log_times', id)
      -- Set the size of a log without chunks to 0.
      bytes = number(read(id, 'size')[1])
    end
    if bytes > 0 then count(id, -bytes) end
    return lines, bytes, is_left
  end

  -- Removes the oldest chunk of a job's log, and counts its lines as missing.
  local function drop_oldest(id)
    local lines, bytes, is_left = take_oldest(id, 9007199254740991, 1)
    if not is_left and redis.call('ZSCORE', tag .. 'log_waits', id) then
      -- Remove all other data, because the job is deleted and no line of its log is left to archive.
      forget(id)
    elseif lines > 0 then
      add(tag .. 'log:' .. id, 'dropped', lines)
    end
    return lines, bytes, is_left
  end

  return {is_used = is_used, read = read, number = number, add = add, count = count, forget = forget, erase = erase,
    keep_for_archive = keep_for_archive, take_oldest = take_oldest, drop_oldest = drop_oldest}
end)()
