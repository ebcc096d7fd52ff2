#!lua flags=allow-oom
-- Erases data of a person from a job that is over. Replaces its values with values without the data, and writes the
-- audit entry. Works in a full store, too, because it adds only the path of each erased value.
-- KEYS job:string history:list result:string challenged:zset audit:stream
-- ARGV now_ms tag job_id
--   attempt(of the job as the caller read it)
--   finished_at_ms(as the caller read it)
--   content(the end of the record, from the field with the length of its extras; empty: unchanged)
--   result(empty: unchanged)
--   drops(letters p: progress and checkpoint, s: partial results, c: challenges)
--   audit_entry audit_max
--   [+ history_entry(all entries in their order; none: unchanged)]
-- REPLY ok | unknown | state:state | changed
-- CHECKS FIRST that the job is over;
--   that since the caller read the job, it has neither run again nor got another history entry
-- include lib/clock.lua
-- include lib/jobs/record.lua
-- include lib/identity/audit_log.lua
local job_key, history_key, result_key = KEYS[1], KEYS[2], KEYS[3]
local challenged_key, audit_key = KEYS[4], KEYS[5]
local now_ms, id, attempt, finished_at_ms = clock.now_ms(ARGV[1]), ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local content, result, drops, audit_entry, audit_max = ARGV[6], ARGV[7], ARGV[8], ARGV[9], ARGV[10]
local tag = ARGV[2]
local is_final = layout.is_final
local FIRST = 11

local head = record.read_head(job_key)
if head == '' then return {'unknown'} end
local state = record.state_of(head)
if not is_final[state] then return {'state', state} end
if (record.attempts_of(head)) ~= attempt or record.int64(head, layout.finished_at_ms.at) ~= finished_at_ms then
  return {'changed'}
end
local entries = #ARGV - FIRST + 1
if entries > 0 and #redis.call('LRANGE', history_key, 0, -1) ~= entries then return {'changed'} end
if content ~= '' then
  local _, extras_at = record.gates_span(head)
  redis.call('SET', job_key, redis.call('GETRANGE', job_key, 0, extras_at - 2) .. content)
end
if entries > 0 then redis.call('UNLINK', history_key) end
for i = FIRST, #ARGV do redis.call('RPUSH', history_key, ARGV[i]) end
-- Use XX, so that a result that was fetched and deleted meanwhile is not written again.
if result ~= '' then redis.call('SET', result_key, result, 'XX') end
if string.find(drops, 'p', 1, true) then redis.call('UNLINK', tag .. 'progress:' .. id) end
if string.find(drops, 's', 1, true) then redis.call('UNLINK', tag .. 'parts:' .. id) end
if string.find(drops, 'c', 1, true) then
  redis.call('UNLINK', tag .. 'challenges:' .. id)
  redis.call('ZREM', challenged_key, id)
end
audit_log.write(audit_key, now_ms, audit_entry, audit_max)
return {'ok'}
