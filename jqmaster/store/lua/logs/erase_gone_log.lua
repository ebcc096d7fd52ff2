#!lua flags=allow-oom
-- Drops the log of a job that is gone while it waits for the archive, and has it removed from the archive.
-- KEYS job:string log_erasures:zset
-- ARGV now_ms tag job_id
-- REPLY ok | kept
-- CHECKS FIRST that the job is gone
-- include lib/clock.lua
-- include lib/logs/job_logs.lua
local job_key, erasures_key = KEYS[1], KEYS[2]
local now_ms, id = clock.now_ms(ARGV[1]), ARGV[3]

if redis.call('EXISTS', job_key) == 1 then return {'kept'} end
job_logs.forget(id)
redis.call('ZADD', erasures_key, string.format('%.0f', now_ms), id)
return {'ok'}
