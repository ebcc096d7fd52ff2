#!lua flags=no-writes
-- Finds the faults of charges at gates, each at one instant: charges of jobs that do not run there, running jobs
-- without a charge, and wrong sums.
-- KEYS
-- ARGV tag [+ gate]
-- REPLY ok:[gate,number of charges that belong to no running job,number of running jobs without a charge,sum as
--   counted,sum of the charges,sum of the window as counted,sum of its starts] of each gate with a fault
-- CHECKS FIRST nothing; it writes nothing
-- include lib/constraints/charge_faults.lua
local FIRST = 2

local faulty = {}
for i = FIRST, #ARGV do
  local found = charge_faults.of(ARGV[i])
  if found.is_faulty then
    faulty[#faulty + 1] = {ARGV[i], #found.leaked, #found.missing, found.counted, found.sum, found.counted_starts,
      found.starts}
  end
end
return {'ok', faulty}
