#!lua flags=allow-oom
-- Records that pushes with idempotency keys were accepted. A repeat then creates no second job, even when the first one
-- is deleted.
-- KEYS
-- ARGV idempotency_prefix [+ key_digest mark holder(job that the key now stands for; empty: unchanged)]
-- REPLY ok
-- CHECKS FIRST that each key still stands for a job, and is not marked yet
local prefix = ARGV[1]
local FIRST, WIDTH = 2, 3
-- Only values of this length are marked: reserve_ids.lua writes a job ID and the digest of its request.
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
