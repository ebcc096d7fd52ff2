#!lua flags=no-writes
-- Finds the faults of charges at gates, each at one instant: charges of jobs that do not run there, running jobs
-- without a charge, and wrong sums. Checks as many of the given gates, in order, as one call may.
-- KEYS
-- ARGV tag [+ gate cursor(where to continue in its charges; 0: from the start)]
-- REPLY ok:number of gates checked,[cursor](of each checked gate: where to continue; 0: done),[number of the gate(from
--   0),number of charges that belong to no running job,number of running jobs without a charge,sum as counted,sum of
--   the charges,sum of the window as counted,sum of its starts] of each gate with a fault
-- CHECKS FIRST nothing; it writes nothing
-- include lib/constraints/charge_faults.lua
local FIRST, WIDTH = 2, 2

local faulty, cursors = {}, {}
for i = FIRST, #ARGV, WIDTH do
  local gate_id, cursor = ARGV[i], ARGV[i + 1]
  local found = charge_faults.of(gate_id, cursor)
  if found.is_faulty then
    faulty[#faulty + 1] = {#cursors, #found.leaked, #found.missing, found.counted, found.sum, found.counted_starts,
      found.starts}
  end
  cursors[#cursors + 1] = found.next
  if charge_faults.is_enough() then break end
end
return {'ok', #cursors, cursors, faulty}
