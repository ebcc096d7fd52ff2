#!lua flags=allow-oom
-- Shortens leases after the store's clock was set back, so that no lease lasts longer than a new one. Otherwise the
-- leases of dead workers would end much too late.
-- KEYS epoch:string running:zset
-- ARGV now_ms epoch lease_ms limit
-- REPLY ok:number of shortened leases | stale_epoch
-- CHECKS FIRST that the epoch is current
-- include lib/clock.lua
-- include lib/leadership.lua
local epoch_key, running_key = KEYS[1], KEYS[2]
local now_ms, epoch, lease_ms, limit = clock.now_ms(ARGV[1]), ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])

if not leadership.holds(epoch_key, epoch) then return {'stale_epoch'} end
local most = string.format('%.0f', now_ms + lease_ms)
local found = redis.call('ZRANGEBYSCORE', running_key, '(' .. most, '+inf', 'LIMIT', 0, limit)
for _, id in ipairs(found) do
  redis.call('ZADD', running_key, most, id)
end
return {'ok', #found}
