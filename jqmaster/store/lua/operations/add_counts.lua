#!lua
-- Adds the counts of a master to the present minute and hour. Ignores a repeated call, which has the same number.
-- Counts all names beyond the limit as one name.
-- KEYS flushed:string counted_names:zset
-- ARGV now_ms tag
--   number(of the call; each call has a higher one)
--   max_names other_name(name for all names beyond max_names)
--   minutes_ms(how long the counts of minutes are kept)
--   hours_ms(how long the counts of hours are kept)
--   [+ name counts]
-- REPLY ok:now_ms | repeat
-- CHECKS FIRST that no call with this number, or a later one, came before
-- include lib/clock.lua
-- include lib/operations/counts.lua
local flushed_key, names_key = KEYS[1], KEYS[2]
local now_ms, number, max_names, other_name = clock.now_ms(ARGV[1]), tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
local tag, minutes_ms, hours_ms = ARGV[2], tonumber(ARGV[6]), tonumber(ARGV[7])
local FIRST, WIDTH = 8, 2
local SUMS, DISCARDED = 6, 13
local MINUTE_MS, HOUR_MS, FLUSHED_MS, SEEN_EVERY_MS = 60000, 3600000, 3600000, 10000

if tonumber(redis.call('GET', flushed_key) or '0') >= number then return {'repeat'} end
redis.call('SET', flushed_key, string.format('%.0f', number), 'PX', FLUSHED_MS)
redis.call('ZREMRANGEBYSCORE', names_key, '-inf', now_ms - hours_ms)
local known = redis.call('ZCARD', names_key)

-- Returns whether something happened to jobs of this name. Counts of a backlog alone do not show this, because its jobs
-- may have waited for days.
local function has_events(counted)
  for n = 1, SUMS do
    if counted[n] > 0 then return true end
  end
  return (counted[DISCARDED] or 0) > 0
end

-- `sums`: the sums of this call by counted name. `order`: these names in the order of the call.
local order, sums = {}, {}
for i = FIRST, #ARGV, WIDTH do
  local name, counted = ARGV[i], counts.read(ARGV[i + 1])
  if name ~= '' then
    local seen_ms = redis.call('ZSCORE', names_key, name)
    if not seen_ms and known >= max_names and name ~= other_name then
      name = other_name
      seen_ms = redis.call('ZSCORE', names_key, name)
    end
    if not seen_ms then known = known + 1 end
    if not seen_ms or (tonumber(seen_ms) <= now_ms - SEEN_EVERY_MS and has_events(counted)) then
      redis.call('ZADD', names_key, now_ms, name)
    end
  end
  if not sums[name] then
    order[#order + 1] = name
    sums[name] = counted
  else
    sums[name] = counts.merge(sums[name], counted)
  end
end

local function add_to(key, lives_ms)
  local is_new = redis.call('EXISTS', key) == 0
  for _, name in ipairs(order) do
    local before = redis.call('HGET', key, name)
    before = before and counts.read(before)
    redis.call('HSET', key, name, cmsgpack.pack(before and counts.merge(before, sums[name]) or sums[name]))
  end
  if is_new and #order > 0 then redis.call('PEXPIRE', key, lives_ms) end
end
add_to(tag .. 'minute:' .. string.format('%.0f', math.floor(now_ms / MINUTE_MS)), minutes_ms)
add_to(tag .. 'hour:' .. string.format('%.0f', math.floor(now_ms / HOUR_MS)), hours_ms)
return {'ok', now_ms}
