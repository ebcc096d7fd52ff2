#!lua flags=allow-oom
-- Removes a worker that leaves. Claims that it still holds end with their leases.
-- KEYS worker:hash workers:zset worker_urls:hash claims:set
-- ARGV worker_id
-- REPLY ok:claims it still holds | unknown
-- CHECKS FIRST that it is registered
local worker_key, workers_key, urls_key, claims_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local worker_id = ARGV[1]

local url = redis.call('HGET', worker_key, 'url')
if not url then
  redis.call('ZREM', workers_key, worker_id)
  return {'unknown'}
end
redis.call('UNLINK', worker_key)
redis.call('ZREM', workers_key, worker_id)
if url ~= '' and redis.call('HGET', urls_key, url) == worker_id then redis.call('HDEL', urls_key, url) end
return {'ok', redis.call('SCARD', claims_key)}
