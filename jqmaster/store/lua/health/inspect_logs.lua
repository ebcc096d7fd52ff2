#!lua flags=no-writes
-- Returns the fault of each job's log, all read at one instant. A call without jobs checks the sum of all sizes
-- instead. An empty text means: no fault.
-- KEYS
-- ARGV tag [+ id]
-- REPLY ok:fault of the sum(empty if jobs are given):[fault](of each job)
-- CHECKS FIRST nothing, because it only reads
-- include lib/logs/log_faults.lua
local FIRST = 2

local faults = {}
for i = FIRST, #ARGV do faults[#faults + 1] = log_faults.of(ARGV[i]) end
return {'ok', #ARGV < FIRST and log_faults.of_total() or '', faults}
