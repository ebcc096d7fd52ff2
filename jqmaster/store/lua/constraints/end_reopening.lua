#!lua flags=allow-oom
-- Records that all gates of a changed constraint have been checked. Does nothing if the constraint has changed again.
-- KEYS epoch:string reopened:zset
-- ARGV epoch cid version
-- REPLY ok | stale_epoch
-- CHECKS FIRST that the epoch is current; that the constraint still has this version
-- include lib/leadership.lua
local epoch_key, reopened_key = KEYS[1], KEYS[2]
local epoch, cid, version = ARGV[1], ARGV[2], ARGV[3]

if not leadership.holds(epoch_key, epoch) then return {'stale_epoch'} end
if redis.call('ZSCORE', reopened_key, cid) == version then redis.call('ZREM', reopened_key, cid) end
return {'ok'}
