#!lua flags=allow-oom
-- Detaches a worker that is silent and has not answered the leader's pings. The worker gets no more jobs until it comes
-- back and asks to continue.
-- KEYS epoch:string worker:hash workers:zset
-- ARGV now_ms epoch worker_id silent_ms
-- REPLY ok | stale_epoch | alive
-- CHECKS FIRST that the epoch is current; that the worker is registered, still silent, and not detached
-- include lib/clock.lua
-- include lib/leadership.lua
local epoch_key, worker_key, workers_key = KEYS[1], KEYS[2], KEYS[3]
local now_ms, epoch, worker_id, silent_ms = clock.now_ms(ARGV[1]), ARGV[2], ARGV[3], tonumber(ARGV[4])

if not leadership.holds(epoch_key, epoch) then return {'stale_epoch'} end
local seen_ms = tonumber(redis.call('ZSCORE', workers_key, worker_id) or now_ms)
local worker = redis.call('HMGET', worker_key, 'max_jobs', 'is_detached')
if seen_ms > now_ms - silent_ms or not worker[1] or worker[2] == '1' then return {'alive'} end
redis.call('HSET', worker_key, 'is_detached', 1, 'detached_by', 'silence', 'silent_since_ms',
  string.format('%.0f', seen_ms))
return {'ok'}
