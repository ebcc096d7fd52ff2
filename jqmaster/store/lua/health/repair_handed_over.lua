#!lua flags=allow-oom
-- Corrects a gate's set of jobs that await another system. Removes a job if it does not await another system, or if it
-- holds no slot at the gate. If any job remains, adds the gate to the set of gates with such jobs.
-- KEYS epoch:string handed_over_gates:set audit:stream
-- ARGV now_ms tag epoch gate audit_entry audit_max [+ id]
-- REPLY ok:number of repaired entries | stale_epoch
-- CHECKS FIRST that the epoch is current, then the fault of each job
-- include lib/clock.lua
-- include lib/leadership.lua
-- include lib/constraints/handed_over.lua
-- include lib/constraints/handed_over_faults.lua
-- include lib/identity/audit_log.lua
local epoch_key, gates_key, audit_key = KEYS[1], KEYS[2], KEYS[3]
local now_ms, tag, epoch, gate_id = clock.now_ms(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]
local audit_entry, audit_max = ARGV[5], tonumber(ARGV[6])
local FIRST = 7

if not leadership.holds(epoch_key, epoch) then return {'stale_epoch'} end
local ids = {}
for i = FIRST, #ARGV do ids[#ids + 1] = ARGV[i] end
local count = handed_over.remove_at(gate_id, handed_over_faults.among(gate_id, ids))
if redis.call('EXISTS', tag .. 'handed_over:' .. gate_id) == 1 then
  count = count + redis.call('SADD', gates_key, gate_id)
end
if count > 0 then audit_log.write(audit_key, now_ms, audit_entry, audit_max) end
return {'ok', count}
