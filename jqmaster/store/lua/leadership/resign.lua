#!lua flags=allow-oom
-- Gives the leader's lock back, by its holder alone, and calls the others to elect.
-- KEYS leader:string
-- ARGV holder wake_channel
-- REPLY ok | lost
-- CHECKS FIRST that the caller holds it
local leader_key = KEYS[1]
local holder, wake_channel = ARGV[1], ARGV[2]

if redis.call('GET', leader_key) ~= holder then return {'lost'} end
redis.call('DEL', leader_key)
redis.call('PUBLISH', wake_channel, 'resigned')
return {'ok'}
