#!lua
-- Seals a batch. From then on, it is complete as soon as all of its members are over. A repeat changes nothing.
-- KEYS batch:hash batches_due:zset
-- ARGV now_ms tag batch_id expires_at_ms(the new value; empty: unchanged)
-- REPLY ok | unknown
-- CHECKS FIRST that the batch exists
-- include lib/clock.lua
-- include lib/batches/batches.lua
local batch_key, due_key = KEYS[1], KEYS[2]
local now_ms, id, expires_at_ms = clock.now_ms(ARGV[1]), ARGV[3], ARGV[4]

local state = redis.call('HGET', batch_key, 'state')
if not state then return {'unknown'} end
if state ~= 'open' then
  redis.call('HSET', batch_key, 'state', state)
  return {'ok'}
end
redis.call('HSET', batch_key, 'state', 'sealed')
redis.call('HDEL', batch_key, 'filled_by')
if expires_at_ms ~= '' then
  redis.call('HSET', batch_key, 'expires_at_ms', expires_at_ms)
  redis.call('ZADD', due_key, expires_at_ms, id)
end
batches.touch(id)
batches.write(now_ms)
return {'ok'}
