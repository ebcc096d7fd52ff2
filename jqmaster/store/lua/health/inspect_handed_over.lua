#!lua flags=no-writes
-- Finds jobs that a gate lists as handed over to another system although they hold no slot there.
-- KEYS handed_over_gates:set
-- ARGV tag gate [+ id]
-- REPLY ok:1 if the gate is listed,[id of each job without a slot]
-- CHECKS FIRST nothing, because it only reads
-- include lib/constraints/handed_over_faults.lua
local gates_key, gate_id = KEYS[1], ARGV[2]
local FIRST = 3

local ids = {}
for i = FIRST, #ARGV do ids[#ids + 1] = ARGV[i] end
return {'ok', redis.call('SISMEMBER', gates_key, gate_id), handed_over_faults.among(gate_id, ids)}
