#!lua flags=allow-oom
-- Lengthens the leader's lock, for its holder alone.
-- KEYS leader:string
-- ARGV holder ttl_ms
-- REPLY ok | lost
-- CHECKS FIRST that the caller holds it
local leader_key = KEYS[1]
local holder, ttl_ms = ARGV[1], ARGV[2]

if redis.call('GET', leader_key) ~= holder then return {'lost'} end
redis.call('PEXPIRE', leader_key, ttl_ms)
return {'ok'}
