#!lua flags=allow-oom
-- Records that the process of a worker is shutting down gracefully. The worker gets no more jobs, and a lease that
-- expires from now on does not count as a loss.
-- KEYS worker:hash
-- ARGV now_ms wake_channel(empty: wake nobody)
-- REPLY ok | unknown
-- CHECKS FIRST that the worker is registered
-- include lib/clock.lua
local worker_key = KEYS[1]
local now_ms, wake_channel = clock.now_ms(ARGV[1]), ARGV[2]

local worker = redis.call('HMGET', worker_key, 'max_jobs', 'leaving_at_ms')
if not worker[1] then return {'unknown'} end
-- Write again on a repeated call. WAIT covers only writes of its own connection, and the write of the first call may
-- never have reached the replicas.
redis.call('HSET', worker_key, 'is_draining', 1, 'leaving_at_ms', worker[2] or now_ms)
if not worker[2] and wake_channel ~= '' then redis.call('PUBLISH', wake_channel, 'workers') end
return {'ok'}
