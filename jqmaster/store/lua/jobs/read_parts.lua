#!lua flags=allow-oom
-- Returns the state of a job, and the partial results of its present attempt after a position. If the job is unfinished
-- and `watch` is 1, records that a client waits for its end.
-- KEYS job:string parts:stream
-- ARGV attempt(of the position)
--   number(of the last partial result before the position; 0: start)
--   max_parts
--   watch(1: record that a client waits for the job, if it is unfinished)
-- REPLY ok:state:attempt:[id value](of each part) | unknown
-- CHECKS FIRST whether the job exists
-- include lib/jobs/record.lua
local job_key, parts_key = KEYS[1], KEYS[2]
local after_attempt, after_number, max_parts, watch = tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]
local is_unfinished = layout.is_unfinished

local head = record.beginning(job_key, layout.worker_id.last)
if #head < layout.worker_id.last then return {'unknown'} end
local state, flags, attempt = record.state_of(head), record.flags_of(head), (record.attempts_of(head))
if watch == '1' and is_unfinished[state] and not record.has_flag(flags, layout.FLAG.watched) then
  record.set_flags(job_key, flags + layout.FLAG.watched)
end
local number = '0'
if after_attempt == attempt then number = after_number end
local found = redis.pcall('XRANGE', parts_key, string.format('(%d-%s', attempt, number),
  string.format('%d', attempt), 'COUNT', max_parts)
local parts = {}
for _, entry in ipairs(found.err and {} or found) do
  parts[#parts + 1] = entry[1]
  parts[#parts + 1] = entry[2][8]
end
return {'ok', state, attempt, parts}
