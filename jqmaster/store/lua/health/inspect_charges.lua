#!lua flags=no-writes
-- Finds the faults of charges at gates: charges of jobs that do not run there, running jobs without a charge, and wrong
-- sums. Reads each gate at one instant. Checks the given gates in order, and stops when it has read as much as one call
-- may read.
-- KEYS
-- ARGV tag [+ gate cursor(where to start in its charges; 0: at the beginning)]
-- REPLY ok:
--     number of gates checked,
--     [where to continue at each checked gate(0: done)],
--     for each gate with a fault a list:
--       number of the gate, from 0
--       number of charges that belong to no running job
--       number of running jobs without a charge
--       stored sum of the charges, correct sum
--       stored sum of the starts in the window, correct sum
-- CHECKS FIRST nothing, because it only reads
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
