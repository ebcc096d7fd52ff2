#!lua
-- Binds an Idempotency-Key to the job ID of its first request; a repeat learns that ID.
-- KEYS idempotency:string
-- ARGV job_id digest life_ms
-- REPLY ok:job_id | taken
-- CHECKS FIRST what the key is bound to
local key = KEYS[1]
local job_id, digest, life_ms = ARGV[1], ARGV[2], ARGV[3]

local bound = redis.call('GET', key)
if bound then
  if string.sub(bound, 37) ~= digest then return {'taken'} end
  job_id = string.sub(bound, 1, 36)
end
redis.call('SET', key, job_id .. digest, 'PX', life_ms)
return {'ok', job_id}
