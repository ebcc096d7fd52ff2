#!lua flags=allow-oom
-- Drops the log lines of jobs whose newest line is older than their retention, and those of jobs that are gone and have
-- waited for the archive long enough; the oldest first, at most `limit` chunks a call.
-- KEYS epoch:string log_times:zset log_waits:zset
-- ARGV now_ms tag epoch retention_ms wait_ms limit
-- REPLY ok:lines that were dropped:1 if there may be more | stale_epoch
-- CHECKS FIRST epoch
-- include lib/clock.lua
-- include lib/leadership.lua
-- include lib/logs/job_logs.lua
local epoch_key, times_key, waits_key = KEYS[1], KEYS[2], KEYS[3]
local now_ms, epoch, retention_ms, wait_ms = clock.now_ms(ARGV[1]), ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local tag, limit = ARGV[2], tonumber(ARGV[6])

if not leadership.holds(epoch_key, epoch) then return {'stale_epoch'} end

local function first_before(key, ms)
  return redis.call('ZRANGEBYSCORE', key, '-inf', string.format('%.0f', ms), 'LIMIT', 0, 1)[1]
end

local dropped = 0
for _ = 1, limit do
  local gone = first_before(waits_key, now_ms - wait_ms)
  local oldest = gone or first_before(times_key, now_ms - retention_ms)
  if not oldest then return {'ok', dropped, 0} end
  if redis.call('EXISTS', tag .. 'log:' .. oldest) == 0 then
    redis.call('ZREM', times_key, oldest)
    redis.call('ZREM', waits_key, oldest)
  else
    local lines, _, is_left = job_logs.drop_oldest(oldest)
    dropped = dropped + lines
    -- Removes the entry even of a job that nothing else names any more.
    if gone and not is_left then redis.call('ZREM', waits_key, gone) end
  end
end
return {'ok', dropped, 1}
