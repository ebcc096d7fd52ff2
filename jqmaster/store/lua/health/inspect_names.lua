#!lua flags=no-writes
-- Returns the fault of each name that has lanes, all read at one instant. An empty text means: no fault.
-- KEYS names:set ready_counts:hash
-- ARGV tag [+ name]
-- REPLY ok:[fault](of each name)
-- CHECKS FIRST nothing, because it only reads
-- include lib/lanes/ready_counts.lua
local names_key, counts_key = KEYS[1], KEYS[2]
local FIRST = 2

local faults = {}
for i = FIRST, #ARGV do
  local ready, counted, lane_count = ready_counts.of(ARGV[i], counts_key)
  local fault = ''
  if lane_count ~= 0 and redis.call('SISMEMBER', names_key, ARGV[i]) == 0 then
    fault = 'its name is not in the set of names'
  elseif ready and ready ~= counted then
    fault = string.format('counts %.0f ready jobs, %.0f are', counted, ready)
  end
  faults[#faults + 1] = fault
end
return {'ok', faults}
