#!lua flags=allow-oom
-- Repairs the logs of jobs, then the sum of their sizes.
-- KEYS epoch:string log_totals:hash audit:stream
-- ARGV now_ms tag epoch audit_entry audit_max [+ id]
-- REPLY ok:[id of each job with a repaired log]:1 if the sum was wrong | stale_epoch
-- CHECKS FIRST that the epoch is current, then the fault of each log
-- include lib/clock.lua
-- include lib/leadership.lua
-- include lib/logs/log_faults.lua
-- include lib/identity/audit_log.lua
local epoch_key, totals_key, audit_key = KEYS[1], KEYS[2], KEYS[3]
local now_ms, epoch, audit_entry, audit_max = clock.now_ms(ARGV[1]), ARGV[3], ARGV[4], tonumber(ARGV[5])
local FIRST = 6

if not leadership.holds(epoch_key, epoch) then return {'stale_epoch'} end
local done = {}
for i = FIRST, #ARGV do
  local id = ARGV[i]
  if log_faults.of(id) ~= '' then
    log_faults.mend(id, now_ms)
    done[#done + 1] = id
  end
end
local fault, sum = log_faults.of_total()
if fault ~= '' then redis.call('HSET', totals_key, 'size', string.format('%.0f', sum)) end
if #done > 0 or fault ~= '' then audit_log.write(audit_key, now_ms, audit_entry, audit_max) end
return {'ok', done, fault ~= '' and 1 or 0}
