#!lua flags=allow-oom
-- Takes claims out of the way whose record cannot be read, so that they hold up neither the leader nor a worker's slot.
-- KEYS epoch:string running:zset damaged:set workers:zset
-- ARGV epoch claims_prefix [+ id]
-- REPLY ok:set aside | stale_epoch
-- CHECKS FIRST epoch, then that each is still claimed
-- include lib/epoch.lua
local epoch_key, running_key, damaged_key, workers_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local epoch, claims_prefix = ARGV[1], ARGV[2]
local FIRST = 3

if not leads(epoch_key, epoch) then return {'stale_epoch'} end
local count = 0
for i = FIRST, #ARGV do
  local id = ARGV[i]
  if redis.call('ZREM', running_key, id) == 1 then
    redis.call('SADD', damaged_key, id)
    -- Who holds it stood in the record.
    for _, worker_id in ipairs(redis.call('ZRANGE', workers_key, 0, -1)) do redis.call('SREM', claims_prefix .. worker_id, id) end
    count = count + 1
  end
end
return {'ok', count}
