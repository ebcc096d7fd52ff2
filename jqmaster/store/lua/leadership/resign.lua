#!lua flags=allow-oom
-- Releases the leader's lock if the caller holds it, and wakes the other masters for an election.
-- KEYS leader:string
-- ARGV holder wake_channel
-- REPLY ok | lost
-- CHECKS FIRST that the caller holds the lock
local leader_key = KEYS[1]
local holder, wake_channel = ARGV[1], ARGV[2]

if redis.call('GET', leader_key) ~= holder then return {'lost'} end
redis.call('DEL', leader_key)
redis.call('PUBLISH', wake_channel, 'resigned')
return {'ok'}
