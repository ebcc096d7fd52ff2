#!lua flags=allow-oom
-- Removes old logs, the oldest first, at most `limit` chunks a call. A log is old in two cases:
-- * Its newest line is older than the retention.
-- * Its job was deleted, and the log has waited for the archive for `wait_ms`.
-- KEYS epoch:string log_times:zset log_waits:zset
-- ARGV now_ms tag epoch retention_ms wait_ms limit
-- REPLY ok:number of removed lines:1 if there may be more | stale_epoch
-- CHECKS FIRST that the epoch is current
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
    -- Remove the entry even if the log has no other data.
    if gone and not is_left then redis.call('ZREM', waits_key, gone) end
  end
end
return {'ok', dropped, 1}
