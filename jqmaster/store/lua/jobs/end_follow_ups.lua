#!lua
-- Removes follow-ups that are done, and moves failed ones behind all others. Leaves an entry alone if it was written
-- again meanwhile.
-- KEYS epoch:string follow_ups:zset
-- ARGV epoch
--   [+ entry
--      number(of the entry as the caller read it)
--      is_done(0: it failed)]
-- REPLY ok:number of removed follow-ups | stale_epoch
-- CHECKS FIRST that the epoch is current; that each entry still has its number
-- include lib/leadership.lua
local epoch_key, follow_ups_key = KEYS[1], KEYS[2]
local epoch = ARGV[1]
local FIRST, WIDTH = 2, 3

if not leadership.holds(epoch_key, epoch) then return {'stale_epoch'} end
local removed, newest = 0, tonumber(redis.call('ZRANGE', follow_ups_key, -1, -1, 'WITHSCORES')[2] or 0)
for i = FIRST, #ARGV, WIDTH do
  local entry, number, is_done = ARGV[i], ARGV[i + 1], ARGV[i + 2] == '1'
  if tonumber(redis.call('ZSCORE', follow_ups_key, entry) or -1) == tonumber(number) then
    if is_done then
      removed = removed + redis.call('ZREM', follow_ups_key, entry)
    else
      newest = newest + 1
      redis.call('ZADD', follow_ups_key, newest, entry)
    end
  end
end
return {'ok', removed}
