-- include lib/lanes/lanes.lua
-- include lib/lanes/parking.lua
-- include lib/lanes/turns.lua
-- Finds the faults of lanes.
local lane_faults = (function()
  local tag = ARGV.tag

  -- Returns the fault of a lane as a text; empty: the lane is sound. `edition`: the present edition of the constraints.
  local function of(id, edition)
    local lane = lanes.by_id(id)
    local ready_key = tag .. 'ready:' .. id
    local ready = redis.call('ZCARD', ready_key)
    if lane.is_lost then return ready > 0 and 'ready jobs in a lane that nothing tells of' or '' end
    if redis.call('ZSCORE', tag .. 'lanes:' .. lane.name, id) ~= tostring(lane.edition) then
      return 'its name does not list it under its edition'
    end
    if lane.queue ~= lane.name and redis.call('HEXISTS', tag .. 'requirements', lane.queue) == 0 then
      return 'requires labels, but no claim would find it'
    end
    if lane.jobs < ready then return string.format('counts %d unfinished jobs, %d are ready', lane.jobs, ready) end
    if ready == 0 then return lane.member ~= '' and 'is empty and stands in an order' or '' end
    local score = redis.call('ZSCORE', lanes.order_key(lane), lane.member)
    if not score or tonumber(score) ~= lane.score then return 'is not at the position that it names' end
    local first = redis.call('ZRANGE', ready_key, 0, 0, 'WITHSCORES')
    -- A fair lane may come after the position of its first job. It may come before that position only if it takes turns
    -- by share.
    if tonumber(first[2]) ~= lane.score
      or (string.sub(lane.member, 1, -layout.lane.id_length - 1) < first[1] and not turns.share_of(lane)) then
      return 'is not at the position of its first job'
    end
    if lane.edition ~= edition then return '' end
    if lane.at ~= '' then return parking.knows_lane(lane.at, lane) and '' or 'is at a gate that does not know it' end
    if redis.call('SISMEMBER', tag .. 'open_groups:' .. lane.queue, lane.group) == 1 then return '' end
    for _, gate_id in ipairs(lane.shared) do
      if parking.knows_group(gate_id, lane) then return '' end
    end
    return 'is open, but no claim would find its group'
  end

  return {of = of}
end)()
