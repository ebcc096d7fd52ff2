#!lua flags=allow-oom
-- Removes the log of a deleted job while the log waits to be archived. Schedules the removal of the part that is
-- already in the archive.
-- KEYS job:string log_erasures:zset
-- ARGV now_ms tag job_id
-- REPLY ok | kept
-- CHECKS FIRST that the job is deleted
-- include lib/clock.lua
-- include lib/logs/job_logs.lua
local job_key, erasures_key = KEYS[1], KEYS[2]
local now_ms, id = clock.now_ms(ARGV[1]), ARGV[3]

if redis.call('EXISTS', job_key) == 1 then return {'kept'} end
job_logs.forget(id)
redis.call('ZADD', erasures_key, string.format('%.0f', now_ms), id)
return {'ok'}
