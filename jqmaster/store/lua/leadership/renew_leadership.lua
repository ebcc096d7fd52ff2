#!lua flags=allow-oom
-- Lengthens the leader's lock, for its holder alone.
-- KEYS leader:string demoted:string
-- ARGV holder master_id ttl_ms
-- REPLY ok | lost | demoted
-- CHECKS FIRST that the caller holds it, and that it was not told to leave the lead to others
local leader_key, demoted_key = KEYS[1], KEYS[2]
local holder, master_id, ttl_ms = ARGV[1], ARGV[2], ARGV[3]

if redis.call('GET', leader_key) ~= holder then return {'lost'} end
if redis.call('GET', demoted_key) == master_id then return {'demoted'} end
redis.call('PEXPIRE', leader_key, ttl_ms)
return {'ok'}
