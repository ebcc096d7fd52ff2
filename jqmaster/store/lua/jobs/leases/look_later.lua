#!lua flags=allow-oom
-- Postpones the next check of claims with expired leases, because the leader cannot decide about them yet.
-- KEYS epoch:string running:zset
-- ARGV now_ms epoch [+ id look_at_ms]
-- REPLY ok:number of postponed claims | stale_epoch
-- CHECKS FIRST that the epoch is current; that the lease of each claim is still expired
-- include lib/clock.lua
-- include lib/leadership.lua
-- include lib/lists.lua
local epoch_key, running_key = KEYS[1], KEYS[2]
local now_ms, epoch = clock.now_ms(ARGV[1]), ARGV[2]
local FIRST, WIDTH = 3, 2

if not leadership.holds(epoch_key, epoch) then return {'stale_epoch'} end
local later = {}
for i = FIRST, #ARGV, WIDTH do
  local lease_end = redis.call('ZSCORE', running_key, ARGV[i])
  if lease_end and tonumber(lease_end) <= now_ms then lists.add_pair(later, ARGV[i + 1], ARGV[i]) end
end
lists.zadd(running_key, later)
return {'ok', #later / 2}
