#!lua
-- Adds failures to their groups. Ignores a repeated call of a master, which has the same number. If there are too many
-- groups, removes those that have not been seen for the longest time.
-- KEYS flushed:string failure_groups:hash failures_seen:zset failure_ignores:hash failure_triage:hash
-- ARGV now_ms
--   number(of the call; each call has a higher one)
--   max_groups
--   lives_ms(how long a group is kept after its last failure)
--   max_versions(maximum number of worker versions to keep for a group)
--   quiet_ms(a group that fails again after this time has recurred)
--   [+ group_id count example_job_id name cause message
--      versions(MessagePack: version, failures, version, failures, …)]
-- REPLY ok:now_ms | repeat
-- CHECKS FIRST that no call with this number, or a later one, came before
-- include lib/clock.lua
local flushed_key, groups_key, seen_key = KEYS[1], KEYS[2], KEYS[3]
local ignores_key, triage_key = KEYS[4], KEYS[5]
local now_ms, number, max_groups = clock.now_ms(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local lives_ms, max_versions, quiet_ms = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local FIRST, WIDTH = 7, 7
local FLUSHED_MS, HOUR_MS, HOURS = 3600000, 3600000, 24

if tonumber(redis.call('GET', flushed_key) or '0') >= number then return {'repeat'} end
redis.call('SET', flushed_key, string.format('%.0f', number), 'PX', FLUSHED_MS)
local hour = math.floor(now_ms / HOUR_MS)

local function list(value) return type(value) == 'table' and value or {} end

-- Adds failures to the present hour. Returns the failures of the last 24 hours as a list that alternates hours and
-- numbers, the oldest first.
local function add_hour(before, more)
  local hours = {}
  for i = 1, #before, 2 do
    local at, count = tonumber(before[i]), tonumber(before[i + 1])
    if at and count and at > hour - HOURS and at ~= hour then
      hours[#hours + 1] = at
      hours[#hours + 1] = count
    elseif at == hour and count then
      more = more + count
    end
  end
  hours[#hours + 1] = hour
  hours[#hours + 1] = more
  return hours
end

-- Adds failures by version of the worker. Returns entries {version, failures, first_ms, last_ms}, the most recently
-- seen first.
local function add_versions(before, told)
  local versions, known = {}, {}
  for i = 1, #told, 2 do
    local one = {told[i], tonumber(told[i + 1]) or 0, now_ms, now_ms}
    versions[#versions + 1] = one
    known[told[i]] = one
  end
  for _, old in ipairs(before) do
    local one = type(old) == 'table' and old[1] and known[old[1]]
    if one then
      one[2], one[3] = one[2] + (tonumber(old[2]) or 0), tonumber(old[3]) or now_ms
    elseif type(old) == 'table' and #old >= 4 then
      versions[#versions + 1] = old
    end
  end
  for i = #versions, max_versions + 1, -1 do versions[i] = nil end
  return versions
end

-- Updates the facts that decide whether a group stays ignored. They are stored apart from the group, because a group
-- forgets old versions and hours.
local function tell_ignore(id, hours, told)
  local packed = redis.call('HGET', ignores_key, id)
  local ok, ignore = pcall(cmsgpack.unpack, packed or '')
  if not packed or not ok or type(ignore) ~= 'table' or #ignore < 8 then return end
  local known, most, is_new = {}, math.max(hours[#hours], tonumber(ignore[7]) or 0), ignore[8]
  for _, version in ipairs(list(ignore[5])) do known[version] = true end
  for i = 1, #told, 2 do
    if not known[told[i]] then is_new = 1 end
  end
  if most ~= ignore[7] or is_new ~= ignore[8] then
    ignore[7], ignore[8] = most, is_new
    redis.call('HSET', ignores_key, id, cmsgpack.pack(ignore))
  end
end

-- Returns the ID of the group into which people merged this group, or this group's own ID.
local function counted_in(id)
  local packed = redis.call('HGET', triage_key, 'm:' .. id)
  local ok, merge = pcall(cmsgpack.unpack, packed or '')
  if packed and ok and type(merge) == 'table' and type(merge[1]) == 'string' then return merge[1] end
  return id
end

for i = FIRST, #ARGV, WIDTH do
  local id, more, example_job_id, name, cause, message, told = unpack(ARGV, i, i + WIDTH - 1)
  local count, first_ms, regressed_ms, hours, versions = tonumber(more), now_ms, 0, {}, {}
  local before = redis.call('HGET', groups_key, id)
  local ok, group = pcall(cmsgpack.unpack, before or '')
  if before and ok and type(group) == 'table' and tonumber(group[1]) and tonumber(group[2]) then
    count, first_ms, hours, versions = count + group[1], group[2], list(group[8]), list(group[9])
    regressed_ms = tonumber(group[10]) or 0
    if now_ms - (tonumber(group[3]) or now_ms) >= quiet_ms then regressed_ms = now_ms end
  end
  told = list(cmsgpack.unpack(told))
  hours = add_hour(hours, tonumber(more))
  versions = add_versions(versions, told)
  -- jqmaster/store/operations/failure_records.py reads this format.
  local packed = cmsgpack.pack({
    count, first_ms, now_ms, example_job_id, name, cause, message, hours, versions, regressed_ms,
  })
  redis.call('HSET', groups_key, id, packed)
  redis.call('ZADD', seen_key, now_ms, id)
  tell_ignore(counted_in(id), hours, told)
end
local gone = redis.call('ZRANGEBYSCORE', seen_key, '-inf', now_ms - lives_ms)
local surplus = redis.call('ZCARD', seen_key) - #gone - max_groups
if surplus > 0 then
  for _, id in ipairs(redis.call('ZRANGE', seen_key, #gone, #gone + surplus - 1)) do gone[#gone + 1] = id end
end
for _, id in ipairs(gone) do
  redis.call('ZREM', seen_key, id)
  redis.call('HDEL', groups_key, id)
  redis.call('HDEL', ignores_key, id)
  redis.call('HDEL', triage_key, 'a:' .. id, 'r:' .. id, 'm:' .. id)
end
return {'ok', now_ms}
