#!lua flags=allow-oom
-- Returns the result of a finished job, and shortens the lifetime of the result to the grace time. For an unfinished
-- job, returns its state and records that a client waits for its end.
-- KEYS job:string result:string results:zset
-- ARGV now_ms job_id grace_ms watch(1: record that a client waits for the job, if it is unfinished)
-- REPLY ok:result | nothing | unfinished:state
-- CHECKS FIRST the state of the job
-- include lib/clock.lua
-- include lib/jobs/record.lua
local job_key, result_key, results_key = KEYS[1], KEYS[2], KEYS[3]
local now_ms, id, grace_ms, watch = clock.now_ms(ARGV[1]), ARGV[2], tonumber(ARGV[3]), ARGV[4]
local is_unfinished = layout.is_unfinished

local dies_at_ms = redis.call('ZSCORE', results_key, id)
if dies_at_ms and tonumber(dies_at_ms) > now_ms then
  local result = redis.call('GET', result_key)
  if result then
    redis.call('ZADD', results_key, 'LT', now_ms + grace_ms, id)
    return {'ok', result}
  end
end
local head = redis.call('GETRANGE', job_key, 0, layout.cause.offset)
if #head < layout.cause.last then return {'nothing'} end
local state, flags = record.state_of(head), record.flags_of(head)
if not is_unfinished[state] then return {'nothing'} end
if watch == '1' and not record.has_flag(flags, layout.FLAG.watched) then
  record.set_flags(job_key, flags + layout.FLAG.watched)
end
return {'unfinished', state}
