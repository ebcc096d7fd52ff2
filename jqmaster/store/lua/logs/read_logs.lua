#!lua flags=allow-oom
-- Returns the log lines of a job after a position, and the state of the job. If the job is unfinished, records that a
-- client waits for its end.
-- KEYS job:string log:hash logs:stream
-- ARGV now_ms
--   after(number of a line)
--   max_chunks
--   watch(1: record that a client waits for the job, if it is unfinished)
-- REPLY ok:state:
--     over_ms(time since the end of the job; 0: unfinished):
--     attempt:
--     [last, dropped, size, archived, ref](fields of the log):
--     [last line, attempt, base and data](of each chunk)
--   | unknown
-- CHECKS FIRST whether the job exists
-- include lib/clock.lua
-- include lib/jobs/record.lua
local job_key, log_key, logs_key = KEYS[1], KEYS[2], KEYS[3]
local now_ms, after, max_chunks, watch = clock.now_ms(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]
local is_unfinished = layout.is_unfinished

local head = record.beginning(job_key, layout.worker_id.last)
if #head < layout.worker_id.last then return {'unknown'} end
local state, flags = record.state_of(head), record.flags_of(head)
if watch == '1' and is_unfinished[state] and not record.has_flag(flags, layout.FLAG.watched) then
  record.set_flags(job_key, flags + layout.FLAG.watched)
end
local over_ms = 0
if not is_unfinished[state] then
  over_ms = math.max(0, now_ms - record.int64(head, layout.finished_at_ms.at))
end
local facts = redis.pcall('HMGET', log_key, 'last', 'dropped', 'size', 'archived', 'ref')
if facts.err then facts = {} end
for n = 1, 5 do facts[n] = facts[n] or '' end
local found = facts[1] ~= '' and redis.pcall('XRANGE', logs_key, string.format('(%s', after), '+', 'COUNT', max_chunks)
  or {}
local chunks = {}
for n, entry in ipairs(found.err and {} or found) do
  chunks[n] = {string.match(entry[1], '^%d+'), entry[2][2] or '', entry[2][8] or '', entry[2][10] or ''}
end
return {'ok', state, over_ms, (record.attempts_of(head)), facts, chunks}
