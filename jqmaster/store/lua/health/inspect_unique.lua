#!lua flags=no-writes
-- Returns the fault of each uniqueness key, all read at one instant. An empty text means: no fault.
-- KEYS
-- ARGV tag [+ digest]
-- REPLY ok:[fault](of each key)
-- CHECKS FIRST nothing, because it only reads
-- include lib/jobs/unique_faults.lua
local FIRST = 2

local faults = {}
for i = FIRST, #ARGV do faults[#faults + 1] = unique_faults.of(ARGV[i]) end
return {'ok', faults}
