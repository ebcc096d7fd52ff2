#!lua flags=allow-oom
-- Records that pushes with idempotency keys were accepted. A repeat then creates no second job, even after the first
-- job was deleted.
-- KEYS
-- ARGV idempotency_prefix
--   [+ key_digest mark
--      holder(ID of the job that the key stands for from now on; empty: unchanged)]
-- REPLY ok
-- CHECKS FIRST that each key still stands for a job, and is not marked yet
local prefix = ARGV[1]
local FIRST, WIDTH = 2, 3
-- The length of an unmarked value: the job ID and the digest that reserve_ids.lua writes.
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
