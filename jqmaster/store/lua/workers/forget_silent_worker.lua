#!lua flags=allow-oom
-- Removes a worker that has been silent for `silent_ms` and holds no claim.
-- KEYS epoch:string worker:hash workers:zset worker_urls:hash claims:set
-- ARGV now_ms epoch worker_id silent_ms
-- REPLY ok | stale_epoch | alive
-- CHECKS FIRST that the epoch is current; that the worker is silent and holds no claim
-- include lib/clock.lua
-- include lib/leadership.lua
local epoch_key, worker_key, workers_key, urls_key, claims_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local now_ms, epoch, worker_id, silent_ms = clock.now_ms(ARGV[1]), ARGV[2], ARGV[3], tonumber(ARGV[4])

if not leadership.holds(epoch_key, epoch) then return {'stale_epoch'} end
local seen_ms = redis.call('ZSCORE', workers_key, worker_id)
if seen_ms and tonumber(seen_ms) > now_ms - silent_ms or redis.call('EXISTS', claims_key) == 1 then return {'alive'} end
local url = redis.call('HGET', worker_key, 'url')
redis.call('UNLINK', worker_key)
redis.call('ZREM', workers_key, worker_id)
if url and url ~= '' and redis.call('HGET', urls_key, url) == worker_id then redis.call('HDEL', urls_key, url) end
return {'ok'}
