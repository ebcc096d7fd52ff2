#!lua flags=allow-oom
-- Removes a uniqueness key that names no job, or a job that does not have this key. Keeps the key of a deleted job
-- until its window ends.
-- KEYS epoch:string audit:stream
-- ARGV now_ms tag epoch audit_entry audit_max [+ digest]
-- REPLY ok:[digest of each repaired key] | stale_epoch
-- CHECKS FIRST that the epoch is current, then the fault of each key
-- include lib/clock.lua
-- include lib/leadership.lua
-- include lib/jobs/uniqueness.lua
-- include lib/jobs/unique_faults.lua
-- include lib/identity/audit_log.lua
local epoch_key, audit_key = KEYS[1], KEYS[2]
local now_ms, epoch, audit_entry, audit_max = clock.now_ms(ARGV[1]), ARGV[3], ARGV[4], tonumber(ARGV[5])
local FIRST = 6

if not leadership.holds(epoch_key, epoch) then return {'stale_epoch'} end
local done = {}
for i = FIRST, #ARGV do
  local digest = ARGV[i]
  if unique_faults.of(digest) ~= '' then
    uniqueness.drop(digest, now_ms)
    done[#done + 1] = digest
  end
end
if #done > 0 then audit_log.write(audit_key, now_ms, audit_entry, audit_max) end
return {'ok', done}
