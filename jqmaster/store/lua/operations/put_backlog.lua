#!lua
-- Stores the leader's sample of the backlog for a while, so that all masters can read it.
-- KEYS epoch:string backlog:string
-- ARGV epoch sample(MessagePack) lives_ms(how long to keep it)
-- REPLY ok | stale_epoch
-- CHECKS FIRST that the epoch is current
-- include lib/leadership.lua
local epoch_key, backlog_key = KEYS[1], KEYS[2]
local epoch, sample, lives_ms = ARGV[1], ARGV[2], ARGV[3]

if not leadership.holds(epoch_key, epoch) then return {'stale_epoch'} end
redis.call('SET', backlog_key, sample, 'PX', lives_ms)
return {'ok'}
