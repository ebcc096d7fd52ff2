#!lua flags=allow-oom
-- Extends the leader's lock if the caller holds it.
-- KEYS leader:string demoted:string
-- ARGV holder master_id ttl_ms
-- REPLY ok | lost | demoted
-- CHECKS FIRST that the caller holds the lock and was not demoted
local leader_key, demoted_key = KEYS[1], KEYS[2]
local holder, master_id, ttl_ms = ARGV[1], ARGV[2], ARGV[3]

local found = redis.call('MGET', leader_key, demoted_key)
-- MGET finds no lock if the key has a wrong type. Then GET raises an error: the lock cannot be read, but nobody else
-- has taken the lead.
if (found[1] or redis.call('GET', leader_key)) ~= holder then return {'lost'} end
if found[2] == master_id then return {'demoted'} end
redis.call('PEXPIRE', leader_key, ttl_ms)
return {'ok'}
