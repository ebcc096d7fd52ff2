-- The logs of jobs. `logs:{job_id}` has the lines of a job in chunks: a stream whose IDs are `last-0`, the number of
-- the last line of each, counted from 1 over all attempts. `log:{job_id}` has what is known of them:
--   last      number of the last line
--   dropped   lines that are missing, because they were too many here, or at the worker
--   size      bytes that the chunks here count against the limits
--   token, worker, attempt, base, sent   the claim that wrote last, the number before its first line, and the worker's
--             own number of its newest line
--   late_token, late_worker, late_attempt, late_sent   the same of the claim before it, whose last lines may still come
--   archived, ref   the last line that is in the archive, and where that is; `ref` is there before the first line is
--   record    the record of the job, of one that is gone
-- `logged` names the jobs that have these, `log_times` those with chunks here, by the instant of the newest.
-- `log_waits` has jobs that are gone and whose log waits for the archive, `log_erasures` deleted jobs whose log is to
-- be removed from it, and `log_erased`, for a while, those whose log was removed. `size` in `log_totals` is the sum of
-- all sizes.
local job_logs = (function()
  local tag = ARGV.tag
  local LINES, SIZE = 4, 6

  local function is_used()
    return redis.call('EXISTS', tag .. 'logged') == 1
  end

  -- Returns the fields of a job's log. A damaged key has none, and begins anew.
  local function read(id, ...)
    local found = redis.pcall('HMGET', tag .. 'log:' .. id, ...)
    if not found.err then return found end
    redis.call('UNLINK', tag .. 'log:' .. id)
    return {}
  end

  -- A number as it is stored; 0 for one that is missing or damaged.
  local function number(value)
    return value and tonumber(value) or 0
  end

  -- Adds to a count. A damaged one begins anew: an error here would hold up all other logs.
  local function add(key, field, by)
    if type(redis.pcall('HINCRBY', key, field, by)) == 'table' then
      redis.pcall('HSET', key, field, string.format('%.0f', math.max(0, by)))
    end
  end

  local function count(id, bytes)
    add(tag .. 'log:' .. id, 'size', bytes)
    add(tag .. 'log_totals', 'size', bytes)
  end

  -- Removes all that is known of the log of a job, and returns whether there was anything.
  local function forget(id)
    if redis.call('SREM', tag .. 'logged', id) == 0 then return false end
    local size = number(read(id, 'size')[1])
    if size > 0 then add(tag .. 'log_totals', 'size', -size) end
    redis.call('ZREM', tag .. 'log_times', id)
    redis.call('ZREM', tag .. 'log_waits', id)
    redis.call('UNLINK', tag .. 'log:' .. id, tag .. 'logs:' .. id)
    return true
  end

  -- Does the same for a deleted job: what the archive has of it, or may have, is to be removed there as well.
  local function erase(id, now_ms)
    if read(id, 'ref')[1] then redis.call('ZADD', tag .. 'log_erasures', string.format('%.0f', now_ms), id) end
    forget(id)
  end

  -- Keeps the log of a job that is about to be removed until it is in the archive, with the record of the job: its
  -- name and its redacted values.
  local function keep_for_archive(id, job_key, now_ms)
    if not redis.call('ZSCORE', tag .. 'log_times', id) then return forget(id) end
    local job = redis.pcall('GET', job_key)
    if type(job) ~= 'string' then return forget(id) end
    redis.call('HSET', tag .. 'log:' .. id, 'record', job)
    redis.call('ZADD', tag .. 'log_waits', string.format('%.0f', now_ms), id)
  end

  -- Removes the oldest chunks of a job up to one that ends behind the line `last`, at most `most`. Returns how many
  -- lines and bytes that were, and whether chunks are left.
  local function take_oldest(id, last, most)
    local key, lines, bytes = tag .. 'logs:' .. id, 0, 0
    local chunks = redis.pcall('XRANGE', key, '-', string.format('%.0f', last), 'COUNT', most)
    if chunks.err then
      -- A key of another type: nothing of it can be read.
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
      -- Without chunks it counts nothing.
      bytes = number(read(id, 'size')[1])
    end
    if bytes > 0 then count(id, -bytes) end
    return lines, bytes, is_left
  end

  -- Drops the oldest chunk of a job, and notes that its lines are missing.
  local function drop_oldest(id)
    local lines, bytes, is_left = take_oldest(id, 9007199254740991, 1)
    if not is_left and redis.call('ZSCORE', tag .. 'log_waits', id) then
      -- Nothing is left to archive of a job that is gone.
      forget(id)
    elseif lines > 0 then
      add(tag .. 'log:' .. id, 'dropped', lines)
    end
    return lines, bytes, is_left
  end

  return {is_used = is_used, read = read, number = number, add = add, count = count, forget = forget, erase = erase,
    keep_for_archive = keep_for_archive, take_oldest = take_oldest, drop_oldest = drop_oldest}
end)()
