#!lua flags=allow-oom
-- Makes another token the owner of a worker.
-- KEYS worker:hash
-- ARGV expected_owner(as the caller read it; empty: none) owner
-- REPLY ok | changed
-- CHECKS FIRST that the worker is registered, and that its owner has not changed since the caller read it
local worker_key = KEYS[1]
local expected_owner, owner = ARGV[1], ARGV[2]

local worker = redis.call('HMGET', worker_key, 'max_jobs', 'owner')
if not worker[1] or (worker[2] or '') ~= expected_owner then return {'changed'} end
redis.call('HSET', worker_key, 'owner', owner)
return {'ok'}
