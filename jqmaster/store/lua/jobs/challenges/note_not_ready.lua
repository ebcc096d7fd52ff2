#!lua
-- Counts how often in a row the handler of a job has reported that its work cannot begin yet.
-- KEYS job:string progress:hash
-- ARGV now_ms worker_id_bytes token_bytes
-- REPLY ok:now_ms,first_report_ms,number of reports | stale
-- CHECKS FIRST that the job is running under this token at this worker
-- include lib/clock.lua
-- include lib/jobs/record.lua
local job_key, progress_key = KEYS[1], KEYS[2]
local now_ms, worker_id_bytes, token_bytes = clock.now_ms(ARGV[1]), ARGV[2], ARGV[3]

local head = record.beginning(job_key, layout.worker_id.last)
if not record.is_held_by(head, token_bytes, worker_id_bytes) then return {'stale'} end
local since = redis.pcall('HGET', progress_key, 'not_ready_since_ms')
-- Replace a damaged key.
if type(since) == 'table' then redis.call('UNLINK', progress_key) end
if type(since) ~= 'string' then
  redis.call('HSET', progress_key, 'not_ready_since_ms', string.format('%.0f', now_ms))
end
local times = redis.call('HINCRBY', progress_key, 'not_ready_times', 1)
local flags = record.flags_of(head)
if not record.has_flag(flags, layout.FLAG.has_progress) then
  record.set_flags(job_key, flags + layout.FLAG.has_progress)
end
return {'ok', now_ms, tonumber(redis.call('HGET', progress_key, 'not_ready_since_ms')), times}
