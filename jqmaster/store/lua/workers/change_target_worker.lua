#!lua flags=allow-oom
-- Changes the names and slots of a worker that delivers jobs to a target. Records whether the target can be reached.
-- Running jobs beyond the slots continue.
-- KEYS worker:hash
-- ARGV names(MessagePack)
--   max_jobs
--   unreachable(why the target cannot be reached; empty: it can)
--   wake_channel(empty: wake nobody)
-- REPLY ok | unknown
-- CHECKS FIRST that the worker is registered
local worker_key = KEYS[1]
local names, max_jobs, unreachable, wake_channel = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

if redis.call('EXISTS', worker_key) == 0 then return {'unknown'} end
redis.call('HSET', worker_key, 'names', names, 'max_jobs', max_jobs, 'own_max_jobs', max_jobs,
  'unreachable', unreachable)
if wake_channel ~= '' then redis.call('PUBLISH', wake_channel, 'workers') end
return {'ok'}
