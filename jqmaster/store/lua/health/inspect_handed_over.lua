#!lua flags=no-writes
-- Reads the faults among jobs that are listed as having handed over their work at a gate.
-- KEYS handed_over_gates:set
-- ARGV tag gate [+ id]
-- REPLY ok:is_listed,[id of each that holds no slot there]
-- CHECKS FIRST nothing; it writes nothing
-- include lib/constraints/handed_over_faults.lua
local gates_key, gate_id = KEYS[1], ARGV[2]
local FIRST = 3

local ids = {}
for i = FIRST, #ARGV do ids[#ids + 1] = ARGV[i] end
return {'ok', redis.call('SISMEMBER', gates_key, gate_id), handed_over_faults.among(gate_id, ids)}
