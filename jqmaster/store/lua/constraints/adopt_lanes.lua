#!lua flags=allow-oom
-- Moves whole lanes to this edition of the constraints without touching their jobs. None of these jobs is running. Each
-- lane gets the present group and shared gates of its queue. The caller names only lanes with gates that depend on
-- nothing but the queue.
-- KEYS epoch:string rules:hash
-- ARGV tag epoch edition [+ lane_id group shared(concatenated gate IDs)]
-- REPLY ok:[lane_id](of each adopted lane),number of their jobs | stale_epoch | stale_constraints
-- CHECKS FIRST that the epoch is current;
--   that the edition of the constraints is current;
--   that each lane exists, has an older edition, and has no keyed gates
-- include lib/leadership.lua
-- include lib/constraints/gate_ids.lua
-- include lib/constraints/waiting.lua
-- include lib/constraints/kept_room.lua
-- include lib/jobs/record.lua
-- include lib/lanes/lanes.lua
-- include lib/lanes/parking.lua
local epoch_key, rules_key = KEYS[1], KEYS[2]
local tag, epoch, edition = ARGV[1], ARGV[2], ARGV[3]
local FIRST, WIDTH = 4, 3

if not leadership.holds(epoch_key, epoch) then return {'stale_epoch'} end
if (redis.call('HGET', rules_key, 'edition') or '0') ~= edition then return {'stale_constraints'} end
edition = tonumber(edition)

-- Removes the lane from its old group. The lane then stands in no group's order until it joins the new group.
local function leave_group(lane)
  if lane.member ~= '' then redis.call('ZREM', tag .. 'open:' .. lane.group, lane.member) end
  if redis.call('EXISTS', tag .. 'open:' .. lane.group) == 0 then
    redis.call('SREM', tag .. 'open_groups:' .. lane.queue, lane.group)
    for _, gate_id in ipairs(lane.shared) do parking.group_left(gate_id, lane) end
  end
end

local function join_group(lane, group, shared)
  lane.edition, lane.group, lane.shared = edition, group, shared
  redis.call('ZADD', tag .. 'lanes:' .. lane.name, edition, lane.id)
  if lane.member ~= '' then
    redis.call('ZADD', tag .. 'open:' .. group, lane.score, lane.member)
    redis.call('SADD', tag .. 'open_groups:' .. lane.queue, group)
  end
  lanes.save(lane)
end

-- Ends the room that gates keep for jobs of the lane, if these jobs no longer pass the gates.
local left = {}
local function end_waits(lane, shared)
  local passed, others = {}, {}
  for _, gate_id in ipairs(shared) do passed[gate_id] = true end
  for _, gate_id in ipairs(lane.shared) do
    if not passed[gate_id] then others[#others + 1] = gate_id end
  end
  kept_room.leave(others, function(id)
    local head = record.beginning(tag .. 'job:' .. id, layout.lane_id.last)
    return #head < layout.lane_id.last or record.hex(record.lane_id_of(head)) == lane.id
  end, left)
end

local adopted, jobs = {}, 0
for i = FIRST, #ARGV, WIDTH do
  local lane = lanes.by_id(ARGV[i])
  if not lane.is_lost and lane.edition < edition and #lane.keyed == 0 and lane.at == '' then
    waiting.add(lane.shared, -lane.jobs)
    leave_group(lane)
    local shared = gate_ids.split(ARGV[i + 2])
    end_waits(lane, shared)
    join_group(lane, ARGV[i + 1], shared)
    waiting.add(lane.shared, lane.jobs)
    adopted[#adopted + 1], jobs = lane.id, jobs + lane.jobs
  end
end
if #adopted > 0 then waiting.write() end
if #left > 0 then parking.open_all(parking.closed_among(left)) end
return {'ok', adopted, jobs}
