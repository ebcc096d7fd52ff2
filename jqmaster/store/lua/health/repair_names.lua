#!lua flags=allow-oom
-- If a name has lanes, adds the name to the list of names. Recounts the ready jobs of these names.
-- KEYS epoch:string names:set ready_counts:hash audit:stream
-- ARGV now_ms tag epoch audit_entry audit_max [+ name]
-- REPLY ok:[each repaired name] | stale_epoch
-- CHECKS FIRST that the epoch is current
-- include lib/clock.lua
-- include lib/leadership.lua
-- include lib/lanes/ready_counts.lua
-- include lib/identity/audit_log.lua
local epoch_key, names_key, counts_key, audit_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local now_ms, epoch, audit_entry, audit_max = clock.now_ms(ARGV[1]), ARGV[3], ARGV[4], tonumber(ARGV[5])
local FIRST = 6

if not leadership.holds(epoch_key, epoch) then return {'stale_epoch'} end
local done = {}
for i = FIRST, #ARGV do
  local name = ARGV[i]
  local ready, counted, lane_count = ready_counts.of(name, counts_key)
  local count = lane_count ~= 0 and redis.call('SADD', names_key, name) or 0
  if ready and ready ~= counted then
    redis.call('HSET', counts_key, name, ready)
    count = count + 1
  end
  if count > 0 then done[#done + 1] = name end
end
if #done > 0 then audit_log.write(audit_key, now_ms, audit_entry, audit_max) end
return {'ok', done}
