#!lua
-- Adds failures to their groups, once for each number of a master's calls. If there are too many groups, those go that
-- were unseen for longest.
-- KEYS flushed:string failure_groups:hash failures_seen:zset
-- ARGV now_ms number(of the call, growing) max_groups lives_ms(how long an unseen group is kept) [+ group_id count
--   example_job_id name cause message]
-- REPLY ok:now_ms | repeat
-- CHECKS FIRST the number of the call
-- include lib/clock.lua
local flushed_key, groups_key, seen_key = KEYS[1], KEYS[2], KEYS[3]
local now_ms, number, max_groups = clock.now_ms(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local lives_ms = tonumber(ARGV[4])
local FIRST, WIDTH = 5, 6
local FLUSHED_MS = 3600000

if tonumber(redis.call('GET', flushed_key) or '0') >= number then return {'repeat'} end
redis.call('SET', flushed_key, string.format('%.0f', number), 'PX', FLUSHED_MS)
for i = FIRST, #ARGV, WIDTH do
  local id, more, example_job_id, name, cause, message = unpack(ARGV, i, i + WIDTH - 1)
  local count, first_ms = tonumber(more), now_ms
  local before = redis.call('HGET', groups_key, id)
  local ok, group = pcall(cmsgpack.unpack, before or '')
  if before and ok and type(group) == 'table' and tonumber(group[1]) and tonumber(group[2]) then
    count, first_ms = count + group[1], group[2]
  end
  -- jqmaster/store/operations/history.py reads it.
  local packed = cmsgpack.pack({count, first_ms, now_ms, example_job_id, name, cause, message})
  redis.call('HSET', groups_key, id, packed)
  redis.call('ZADD', seen_key, now_ms, id)
end
local gone = redis.call('ZRANGEBYSCORE', seen_key, '-inf', now_ms - lives_ms)
local surplus = redis.call('ZCARD', seen_key) - #gone - max_groups
if surplus > 0 then
  for _, id in ipairs(redis.call('ZRANGE', seen_key, #gone, #gone + surplus - 1)) do gone[#gone + 1] = id end
end
for _, id in ipairs(gone) do
  redis.call('ZREM', seen_key, id)
  redis.call('HDEL', groups_key, id)
end
return {'ok', now_ms}
