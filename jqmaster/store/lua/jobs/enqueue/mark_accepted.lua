#!lua flags=allow-oom
-- Notes that the pushes of idempotency keys were accepted: a repeat makes no other job, also when that one is gone.
-- KEYS
-- ARGV idempotency_prefix [+ key_digest mark holder(job for which the key stands from now on; empty: the same)]
-- REPLY ok
-- CHECKS FIRST of each key that it still stands for a job, and for one that is not marked
local prefix = ARGV[1]
local FIRST, WIDTH = 2, 3
-- The length of a job ID and the digest of its request, as reserve_ids writes them.
local LENGTH = 44

for i = FIRST, #ARGV, WIDTH do
  local key, mark, holder = prefix .. ARGV[i], ARGV[i + 1], ARGV[i + 2]
  if redis.call('STRLEN', key) == LENGTH then
    if holder ~= '' then
      redis.call('SET', key, holder .. string.sub(redis.call('GET', key), #holder + 1), 'KEEPTTL')
    end
    redis.call('APPEND', key, mark)
  end
end
return {'ok'}
