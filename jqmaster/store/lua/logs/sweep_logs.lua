#!lua flags=allow-oom
-- Drops the log lines of jobs whose newest line is older than their retention, the oldest first, at most `limit` chunks
-- a call.
-- KEYS epoch:string log_times:zset
-- ARGV now_ms tag epoch retention_ms limit
-- REPLY ok:lines that were dropped:1 if there may be more | stale_epoch
-- CHECKS FIRST epoch
-- include lib/clock.lua
-- include lib/leadership.lua
-- include lib/job_logs.lua
local epoch_key, times_key = KEYS[1], KEYS[2]
local now_ms, epoch, retention_ms, limit = clock.now_ms(ARGV[1]), ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local tag = ARGV[2]

if not leadership.holds(epoch_key, epoch) then return {'stale_epoch'} end
local dropped = 0
for _ = 1, limit do
  local oldest = redis.call('ZRANGEBYSCORE', times_key, '-inf', string.format('%.0f', now_ms - retention_ms),
    'LIMIT', 0, 1)[1]
  if not oldest then return {'ok', dropped, 0} end
  if redis.call('EXISTS', tag .. 'log:' .. oldest) == 0 then
    redis.call('ZREM', times_key, oldest)
  else
    dropped = dropped + job_logs.drop_oldest(oldest)
  end
end
return {'ok', dropped, 1}
