#!lua flags=allow-oom
-- Makes a worker known. Another one that served the same address is told to stop and gets nothing more.
-- KEYS worker:hash workers:zset worker_urls:hash epoch:string
-- ARGV now_ms worker_id url(empty: it pulls) worker_prefix wake_channel(empty: nobody to wake) [+ field value]
-- REPLY ok:now_ms,epoch,replaced_worker_id(empty: none)
-- CHECKS FIRST nothing that could refuse
-- include lib/time.lua
local worker_key, workers_key, urls_key, epoch_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local now_ms, worker_id, url, worker_prefix, wake_channel = time_ms(ARGV[1]), ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local FIRST = 6

local replaced = url ~= '' and redis.call('HGET', urls_key, url) or false
redis.call('HSET', worker_key, 'registered_at_ms', now_ms, 'is_draining', 0, 'is_detached', 0, unpack(ARGV, FIRST))
redis.call('ZADD', workers_key, now_ms, worker_id)
if url ~= '' then redis.call('HSET', urls_key, url, worker_id) end
if replaced and replaced ~= worker_id and redis.call('EXISTS', worker_prefix .. replaced) == 1 then
  redis.call('HSET', worker_prefix .. replaced, 'is_detached', 1)
end
if wake_channel ~= '' then redis.call('PUBLISH', wake_channel, 'workers') end
return {'ok', now_ms, redis.call('GET', epoch_key) or '', replaced or ''}
