#!lua flags=allow-oom
-- Removes a worker that unregisters. Claims that it still holds end with their leases. If the worker has announced its
-- shutdown and still holds claims, keeps a note of the announcement.
-- KEYS worker:hash workers:zset worker_urls:hash claims:set left:string
-- ARGV worker_id note_ms(how long the note is kept)
-- REPLY ok:number of claims that it still holds | unknown
-- CHECKS FIRST that the worker is registered
local worker_key, workers_key, urls_key, claims_key, left_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local worker_id, note_ms = ARGV[1], ARGV[2]

local worker = redis.call('HMGET', worker_key, 'url', 'leaving_at_ms')
local url, leaving_at_ms = worker[1], worker[2]
if not url then
  redis.call('ZREM', workers_key, worker_id)
  return {'unknown'}
end
local held = redis.call('SCARD', claims_key)
redis.call('UNLINK', worker_key)
redis.call('ZREM', workers_key, worker_id)
if url ~= '' and redis.call('HGET', urls_key, url) == worker_id then redis.call('HDEL', urls_key, url) end
if leaving_at_ms and held > 0 then redis.call('SET', left_key, leaving_at_ms, 'PX', note_ms) end
return {'ok', held}
