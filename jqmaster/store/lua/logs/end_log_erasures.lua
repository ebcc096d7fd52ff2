#!lua flags=allow-oom
-- Notes that logs of deleted jobs were removed from the archive.
-- KEYS epoch:string log_erasures:zset
-- ARGV epoch [+ job_id]
-- REPLY ok:logs that were noted | stale_epoch
-- CHECKS FIRST epoch
-- include lib/leadership.lua
local epoch_key, erasures_key = KEYS[1], KEYS[2]
local epoch = ARGV[1]
local FIRST = 2

if not leadership.holds(epoch_key, epoch) then return {'stale_epoch'} end
local count = 0
for i = FIRST, #ARGV do count = count + redis.call('ZREM', erasures_key, ARGV[i]) end
return {'ok', count}
