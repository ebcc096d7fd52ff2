#!lua flags=allow-oom
-- Removes the log of a job that is over, and writes the audit entry. Schedules the removal of the part that is in the
-- archive. The job stays.
-- KEYS job:string audit:stream
-- ARGV now_ms tag job_id
--   over_ms(how long after its end a job still gets lines)
--   audit_entry audit_max
-- REPLY ok | unknown | state:state
--   | open:ms until no more lines can arrive
-- CHECKS FIRST that the job is over; that no more lines can arrive
-- include lib/clock.lua
-- include lib/jobs/record.lua
-- include lib/identity/audit_log.lua
-- include lib/logs/job_logs.lua
local job_key, audit_key = KEYS[1], KEYS[2]
local now_ms, id, over_ms, audit_entry, audit_max = clock.now_ms(ARGV[1]), ARGV[3], tonumber(ARGV[4]), ARGV[5], ARGV[6]
local is_final = layout.is_final

local head = record.read_head(job_key)
if head == '' then return {'unknown'} end
local state = record.state_of(head)
if not is_final[state] then return {'state', state} end
local open_ms = record.int64(head, layout.finished_at_ms.at) + over_ms - now_ms
if open_ms > 0 then return {'open', open_ms} end
job_logs.erase(id, now_ms)
audit_log.write(audit_key, now_ms, audit_entry, audit_max)
return {'ok'}
