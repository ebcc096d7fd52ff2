-- include lib/constraints/gates.lua
-- include lib/constraints/weights.lua
-- include lib/lanes/lanes.lua
-- include lib/lanes/turns.lua
-- include lib/lanes/parking.lua
-- include lib/lanes/lane_queue.lua
-- Fills the queue of a claim with the open lanes of its names.
local open_lanes = (function()
  local tag = ARGV.tag
  local sub, ID_LENGTH = string.sub, layout.lane.id_length
  -- MAX_LANES: maximum number of lanes to read. MORE_LANES_IF_FAIR: how many more lanes to read under a fair
  -- constraint. When a key value is served there, all of its lanes move back in the order, so more lanes are needed.
  local MAX_LANES, MORE_LANES_IF_FAIR = 1000, 200
  local edition = tonumber(ARGV.edition)
  -- `groups`: by ID, groups whose shared gates are all open.
  -- `closed_groups`: by ID, groups with a closed shared gate.
  -- `is_asked_for`: by name, whether the claim is for this name.
  local groups, closed_groups, is_asked_for = {}, {}, {}
  local lanes_read, is_cut_short = 0, false

  local function read(group_id, wanted)
    local count = math.max(1, math.min(wanted, MAX_LANES - lanes_read))
    return redis.call('ZRANGE', tag .. 'open:' .. group_id, 0, count - 1, 'WITHSCORES')
  end

  local function add(group, open)
    groups[group.id] = group
    for at = 1, #open, 2 do
      local lane_id = sub(open[at], -ID_LENGTH)
      lane_queue.add({score = tonumber(open[at + 1]), order = open[at], lane_id = lane_id, group = group})
    end
    if #open / 2 < redis.call('ZCARD', tag .. 'open:' .. group.id) then
      -- Add an item that marks the end of the lanes that were read. The other lanes of the group may come before any
      -- item that follows it.
      lane_queue.add({score = tonumber(open[#open]), order = open[#open - 1] .. '~', group = group, is_end = true})
    end
  end

  local function add_group(group_id, name, most, now_ms)
    local wanted = math.min(most, MAX_LANES) + 1
    local open = read(group_id, wanted)
    local first = open[1] and lanes.by_id(sub(open[1], -ID_LENGTH))
    if first and #open > wanted and turns.are_taken(first) then open = read(group_id, wanted + MORE_LANES_IF_FAIR) end
    lanes_read = lanes_read + #open / 2
    if not first or first.edition ~= edition then
      -- Remove the group from the list, because it is empty or has an older edition. If it has an older edition, the
      -- leader is moving its jobs to other lanes.
      redis.call('SREM', tag .. 'open_groups:' .. name, group_id)
      return
    end
    local closed_by = #first.shared > 0 and gates.first_closed(first.shared, now_ms)
    if closed_by then
      if closed_by.weight_default then weights.keep_for_first(closed_by, first) end
      parking.close_group(group_id, name, closed_by)
      closed_groups[group_id] = true
    else
      add({id = group_id, name = name, shared = first.shared}, open)
    end
  end

  -- Adds the lanes of a name. `most`: how many jobs of the name the claim may take.
  local function add_name(name, most, now_ms)
    is_asked_for[name] = true
    for _, group_id in ipairs(redis.call('SMEMBERS', tag .. 'open_groups:' .. name)) do
      add_group(group_id, name, most, now_ms)
    end
  end

  -- Puts lanes that were opened during this claim into the queue.
  local function put(came_back)
    for _, lane in ipairs(came_back) do
      local group = groups[lane.group]
      if group then
        lane_queue.put({score = lane.score, order = lane.member, lane_id = lane.id, group = group})
      elseif is_asked_for[lane.queue] and lane.edition == edition and not closed_groups[lane.group] then
        -- No lane of this group was open when the groups were read, so leave the lane to the next call.
        is_cut_short = true
      end
    end
  end

  -- Returns whether all open lanes of the claim's names were read.
  local function are_all_read()
    return not is_cut_short and lanes_read < MAX_LANES
  end

  return {add_name = add_name, put = put, are_all_read = are_all_read}
end)()
