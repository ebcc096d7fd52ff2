#!lua
-- Removes follow-ups that were carried out, and moves those that could not be carried out behind all others. An entry
-- that was written again meanwhile stays as it is.
-- KEYS epoch:string follow_ups:zset
-- ARGV epoch [+ entry number(as it was read) is_done(1, or 0: it could not be carried out)]
-- REPLY ok:removed | stale_epoch
-- CHECKS FIRST the epoch, then the number of each
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
