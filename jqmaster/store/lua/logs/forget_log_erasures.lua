#!lua flags=allow-oom
-- Removes the notes of deleted jobs after the second check of the archive, which is the last one.
-- KEYS epoch:string log_erased:zset
-- ARGV epoch [+ job_id]
-- REPLY ok:number of jobs | stale_epoch
-- CHECKS FIRST that the epoch is current
-- include lib/leadership.lua
local epoch_key, erased_key = KEYS[1], KEYS[2]
local epoch = ARGV[1]
local FIRST = 2

if not leadership.holds(epoch_key, epoch) then return {'stale_epoch'} end
local count = 0
for i = FIRST, #ARGV do count = count + redis.call('ZREM', erased_key, ARGV[i]) end
return {'ok', count}
