#!lua
-- Binds an Idempotency-Key to the job ID of its first request; a repeat learns that ID, and whether its job was
-- accepted.
-- KEYS idempotency:string
-- ARGV job_id digest life_ms
-- REPLY ok:job_id,is_accepted | taken
-- CHECKS FIRST what the key is bound to
local key = KEYS[1]
local job_id, digest, life_ms = ARGV[1], ARGV[2], ARGV[3]

local bound = redis.call('GET', key)
if bound and string.sub(bound, 37, 44) ~= digest then return {'taken'} end
bound = bound or job_id .. digest
redis.call('SET', key, bound, 'PX', life_ms)
return {'ok', string.sub(bound, 1, 36), #bound > 44 and 1 or 0}
