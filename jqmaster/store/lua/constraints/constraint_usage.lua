#!lua flags=no-writes
-- Reads the present state of gates at one instant: how many jobs wait and run there, and whether the gates are open.
-- KEYS
-- ARGV now_ms tag [+ gate]
-- REPLY ok:now_ms, and for each gate a list:
--     waiting jobs
--     running jobs(-1: not counted)
--     starts within the period(-1: not counted)
--     opens_at_ms(0: it is open, or only an event can open it)
--     held_until_ms(0: not held)
--     is_open
--     text of its key value
--     ID of the conditional override that applies to it(empty: none)
--     thousandths charged to running jobs(-1: not counted)
--     thousandths charged within the period(-1: not counted)
--     observed room in thousandths(-1: not observed)
--     observed_until_ms(0: not observed)
-- CHECKS FIRST nothing, because it only reads
-- include lib/clock.lua
-- include lib/constraints/slots.lua
-- include lib/constraints/gates.lua
-- include lib/constraints/waiting.lua
-- include lib/constraints/weighing.lua
local now_ms = clock.now_ms(ARGV[1])
local FIRST = 3

local found = {}
for i = FIRST, #ARGV do
  local id = ARGV[i]
  local gate = gates.of(id, now_ms)
  local is_open = gate.room > 0 and not (gate.kept and weighing.is_kept_closed(gate))
  local waiting_jobs, text = waiting.at(id)
  found[#found + 1] = {
    waiting_jobs,
    gate.tracks_slots and slots.used(id) or -1,
    gate.starts or -1,
    not is_open and gate.due_ms or 0,
    gate.held_until_ms or 0,
    is_open and 1 or 0,
    text or '',
    gate.condition or '',
    gate.running_left and gate.running_most - gate.running_left or -1,
    gate.window_left and gate.window_most - gate.window_left or -1,
    gate.observed_left and math.max(0, gate.observed_left) or -1,
    gate.observed_until_ms or 0,
  }
end
return {'ok', now_ms, found}
