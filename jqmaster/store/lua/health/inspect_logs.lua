#!lua flags=no-writes
-- Returns the fault of each job's log, all read at one instant. If the call names no job, returns the fault of the sum
-- of all sizes. Empty: no fault.
-- KEYS
-- ARGV tag [+ id]
-- REPLY ok:text of the sum:[text]
-- CHECKS FIRST nothing, because it only reads
-- include lib/logs/log_faults.lua
local FIRST = 2

local faults = {}
for i = FIRST, #ARGV do faults[#faults + 1] = log_faults.of(ARGV[i]) end
return {'ok', #ARGV < FIRST and log_faults.of_total() or '', faults}
