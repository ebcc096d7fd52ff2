#!lua flags=allow-oom
-- Adds lanes to the order of open lanes, at the place of their first jobs. If a gate of a lane is closed, the next
-- claim parks the lane again.
-- KEYS epoch:string rules:hash audit:stream
-- ARGV now_ms tag epoch wake_channel(empty: wake nobody) audit_entry audit_max [+ lane]
-- REPLY ok:[each repaired lane] | stale_epoch
-- CHECKS FIRST that the epoch is current; then, for each lane, that it still has a fault
-- include lib/clock.lua
-- include lib/leadership.lua
-- include lib/jobs/record.lua
-- include lib/lanes/lanes.lua
-- include lib/lanes/turns.lua
-- include lib/lanes/parking.lua
-- include lib/lanes/lane_faults.lua
-- include lib/identity/audit_log.lua
local epoch_key, rules_key, audit_key = KEYS[1], KEYS[2], KEYS[3]
local now_ms, epoch, wake_channel, audit_entry = clock.now_ms(ARGV[1]), ARGV[3], ARGV[4], ARGV[5]
local audit_max = tonumber(ARGV[6])
local tag = ARGV[2]
local FIRST = 7
-- How many entries of an order are searched for duplicates of a lane.
local LOOKED_AT = 500

if not leadership.holds(epoch_key, epoch) then return {'stale_epoch'} end
local edition = tonumber(redis.call('HGET', rules_key, 'edition') or '0')

-- Recreates a lane whose key was lost. The new lane has no gates and no edition, so the leader matches its jobs to the
-- constraints again.
local function found_again(lane)
  local first = redis.call('ZRANGE', tag .. 'ready:' .. lane.id, 0, 0)
  local head = first[1] and record.read_head(tag .. 'job:' .. first[1]) or ''
  if head == '' or record.hex(record.lane_id_of(head)) ~= lane.id then return false end
  lane.name, lane.is_lost = record.name_of(head), false
  lane.queue = lane.name
  return true
end

local function leave(key, lane)
  local gone = {lane.member}
  for _, member in ipairs(redis.call('ZRANGE', key, 0, LOOKED_AT - 1)) do
    if string.sub(member, -layout.lane.id_length) == lane.id then gone[#gone + 1] = member end
  end
  redis.call('ZREM', key, unpack(gone))
end

local function stand_open(lane)
  local open_key = tag .. 'open:' .. lane.group
  leave(open_key, lane)
  if lane.at ~= '' then
    local parked_key = tag .. 'parked:' .. lane.at .. ':' .. lane.group
    leave(parked_key, lane)
    if redis.call('EXISTS', parked_key) == 0 then parking.lanes_left(lane.at, lane) end
  end
  local first = redis.call('ZRANGE', tag .. 'ready:' .. lane.id, 0, 0, 'WITHSCORES')
  lane.at, lane.score, lane.member = '', 0, ''
  if first[1] then
    lane.score, lane.member = tonumber(first[2]), turns.order_of(lane, first[1]) .. lane.id
    redis.call('ZADD', open_key, lane.score, lane.member)
    redis.call('SADD', tag .. 'open_groups:' .. lane.queue, lane.group)
  end
end

local done = {}
for i = FIRST, #ARGV do
  local id = ARGV[i]
  if lane_faults.of(id, edition) ~= '' then
    local lane = lanes.by_id(id)
    if not lane.is_lost or found_again(lane) then
      redis.call('ZADD', tag .. 'lanes:' .. lane.name, lane.edition, id)
      redis.call('SADD', tag .. 'names', lane.name)
      if lane.queue ~= lane.name and redis.call('HEXISTS', tag .. 'requirements', lane.queue) == 0 then
        redis.call('HSET', tag .. 'requirements', lane.queue, 1)
      end
      -- Use the larger number. A count that is too high keeps the lane for longer. A count that is too low would remove
      -- the lane while it still has jobs.
      lane.jobs = math.max(lane.jobs, redis.call('ZCARD', tag .. 'ready:' .. id))
      stand_open(lane)
      lanes.save(lane)
      done[#done + 1] = id
    end
  end
end
if #done > 0 then
  audit_log.write(audit_key, now_ms, audit_entry, audit_max)
  if wake_channel ~= '' then redis.call('PUBLISH', wake_channel, 'ready') end
end
return {'ok', done}
