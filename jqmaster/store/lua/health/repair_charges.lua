#!lua flags=allow-oom
-- Makes the charges at gates agree with the running jobs, and their sums with the charges.
-- KEYS epoch:string audit:stream
-- ARGV now_ms tag epoch
--   wake_channel(empty: wake nobody)
--   audit_entry audit_max
--   [+ gate cursor(where to start in its charges; 0: at the beginning)]
-- REPLY ok:number of repaired gates | stale_epoch
-- CHECKS FIRST that the epoch is current, then the fault of each gate
-- include lib/clock.lua
-- include lib/leadership.lua
-- include lib/constraints/charge_faults.lua
-- include lib/lanes/parking.lua
-- include lib/identity/audit_log.lua
local epoch_key, audit_key = KEYS[1], KEYS[2]
local now_ms, epoch, wake_channel, audit_entry = clock.now_ms(ARGV[1]), ARGV[3], ARGV[4], ARGV[5]
local audit_max = tonumber(ARGV[6])
local FIRST, WIDTH = 7, 2

if not leadership.holds(epoch_key, epoch) then return {'stale_epoch'} end
local repaired = {}
for i = FIRST, #ARGV, WIDTH do
  local gate_id, cursor = ARGV[i], ARGV[i + 1]
  local found = charge_faults.of(gate_id, cursor)
  if found.is_faulty then
    charge_faults.repair(found)
    repaired[#repaired + 1] = gate_id
  end
end
if #repaired > 0 then
  local has_opened = parking.open_all(parking.closed_among(repaired))
  audit_log.write(audit_key, now_ms, audit_entry, audit_max)
  if has_opened and wake_channel ~= '' then redis.call('PUBLISH', wake_channel, 'ready') end
end
return {'ok', #repaired}
