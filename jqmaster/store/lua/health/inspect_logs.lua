#!lua flags=no-writes
-- Reads the fault of each job's log, or, without any job, that of the sum of all sizes, at one instant: empty for a
-- sound one.
-- KEYS
-- ARGV tag [+ id]
-- REPLY ok:text of the sum:[text]
-- CHECKS FIRST nothing; it writes nothing
-- include lib/logs/log_faults.lua
local FIRST = 2

local faults = {}
for i = FIRST, #ARGV do faults[#faults + 1] = log_faults.of(ARGV[i]) end
return {'ok', #ARGV < FIRST and log_faults.of_total() or '', faults}
