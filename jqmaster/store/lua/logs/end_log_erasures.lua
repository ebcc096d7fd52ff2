#!lua flags=allow-oom
-- Records that logs of deleted jobs were removed from the archive. The archive will be checked again later, because a
-- delayed leader may have written a piece of a log after the removal.
-- KEYS epoch:string log_erasures:zset log_erased:zset
-- ARGV epoch [+ job_id]
-- REPLY ok:number of logs | stale_epoch
-- CHECKS FIRST that the epoch is current
-- include lib/leadership.lua
local epoch_key, erasures_key, erased_key = KEYS[1], KEYS[2], KEYS[3]
local epoch = ARGV[1]
local FIRST = 2

if not leadership.holds(epoch_key, epoch) then return {'stale_epoch'} end
local count = 0
for i = FIRST, #ARGV do
  local deleted_ms = redis.call('ZSCORE', erasures_key, ARGV[i])
  if deleted_ms then
    redis.call('ZREM', erasures_key, ARGV[i])
    redis.call('ZADD', erased_key, deleted_ms, ARGV[i])
    count = count + 1
  end
end
return {'ok', count}
