-- include lib/lazily.lua
-- include lib/lists.lua
-- include lib/constraints/gates.lua
-- include lib/lanes/lanes.lua
-- Parks lanes and groups at closed gates until the gates open, so that claims do not read them.
--
-- A lane is parked at the gate that was closed. When the gate opens, only the first lane of each group is opened. The
-- next lane is opened after the first lane has been served. Parked lanes therefore cost nothing, even if there are
-- many. A closed shared gate parks its groups as a whole.
local parking = lazily.made_by(function()
  local tag = ARGV.tag
  local sub, known_gates = string.sub, gates.known

  -- The text of a waiter at a gate begins with `LANES` (some lanes of a group) or `GROUP` (the whole group). After it
  -- come the group and its queue.
  local LANES, GROUP, ID_LENGTH = 'L', 'G', layout.lane.id_length

  local function read_waiter(waiter)
    return sub(waiter, 1, 1) == GROUP, sub(waiter, 2, ID_LENGTH + 1), sub(waiter, ID_LENGTH + 2)
  end

  local function has_waiter(gate_id, waiter)
    return redis.call('SISMEMBER', tag .. 'waiters:' .. gate_id, waiter) == 1
  end

  local function add_waiter(gate, waiter)
    redis.call('SADD', tag .. 'waiters:' .. gate.id, waiter)
    redis.call('SADD', tag .. 'closed', gate.id)
    gates.await(gate)
  end

  local function remove_waiter(gate_id, waiter)
    redis.call('SREM', tag .. 'waiters:' .. gate_id, waiter)
    if redis.call('EXISTS', tag .. 'waiters:' .. gate_id) == 0 then redis.call('SREM', tag .. 'closed', gate_id) end
  end

  -- These two functions return whether the gate has a waiter for parked lanes of this group, or for the whole group.
  local function knows_lane(gate_id, lane) return has_waiter(gate_id, LANES .. lane.group .. lane.queue) end
  local function knows_group(gate_id, lane) return has_waiter(gate_id, GROUP .. lane.group .. lane.queue) end

  local function lane_lies_at(gate, lane) add_waiter(gate, LANES .. lane.group .. lane.queue) end

  -- These two functions remove the gate's waiter for parked lanes of this group, or for the whole group.
  local function lanes_left(gate_id, lane) remove_waiter(gate_id, LANES .. lane.group .. lane.queue) end
  local function group_left(gate_id, lane) remove_waiter(gate_id, GROUP .. lane.group .. lane.queue) end

  -- Returns those of the gates that have waiters.
  local function closed_among(ids)
    local closed = {}
    if #ids == 0 or redis.call('EXISTS', tag .. 'closed') == 0 then return closed end
    -- Read in chunks, because a call may have thousands of gates, which are too many for one command.
    for at = 1, #ids, 1000 do
      local piece = redis.call('SMISMEMBER', tag .. 'closed', unpack(ids, at, math.min(at + 999, #ids)))
      for i, is_closed in ipairs(piece) do
        if is_closed == 1 then closed[#closed + 1] = ids[at + i - 1] end
      end
    end
    return closed
  end

  -- Opens the first lane of a group that is parked at a gate. Returns this lane; nil: there is none.
  local function bring_back_first(gate_id, group, name)
    local parked_key = tag .. 'parked:' .. gate_id .. ':' .. group
    local first = redis.call('ZRANGE', parked_key, 0, 1, 'WITHSCORES')
    if not first[1] then return nil end
    if #first < 4 then remove_waiter(gate_id, LANES .. group .. name) end
    local lane = lanes.by_id(sub(first[1], -ID_LENGTH))
    redis.call('ZREM', parked_key, first[1])
    redis.call('ZADD', tag .. 'open:' .. group, first[2], first[1])
    redis.call('SADD', tag .. 'open_groups:' .. name, group)
    lane.at = ''
    lanes.save(lane)
    return lane
  end

  -- Opens the waiters of a gate. Returns the opened lanes, and whether any lane or group was opened.
  local function open(gate_id)
    local came_back, has_opened = {}, false
    for _, waiter in ipairs(redis.call('SMEMBERS', tag .. 'waiters:' .. gate_id)) do
      local is_group, group, name = read_waiter(waiter)
      if is_group then
        redis.call('SADD', tag .. 'open_groups:' .. name, group)
        remove_waiter(gate_id, waiter)
        has_opened = true
      else
        local lane = bring_back_first(gate_id, group, name)
        if lane then came_back[#came_back + 1] = lane else remove_waiter(gate_id, waiter) end
      end
    end
    return came_back, has_opened or #came_back > 0
  end

  local function opens_any(gate_id)
    local _, has_opened = open(gate_id)
    return has_opened
  end

  -- Opens the waiters of these gates. Returns whether any lane or group was opened.
  local function open_all(ids)
    local has_any_opened = false
    for _, gate_id in ipairs(ids) do has_any_opened = lists.alone(opens_any, gate_id) or has_any_opened end
    return has_any_opened
  end

  -- Call this after a lane was parked or has moved back in the order. At each of the lane's keyed gates, opens the next
  -- parked lane. Skips a gate that is known to be closed. Returns the opened lanes.
  local function follow(lane, except_gate_id)
    local came_back = {}
    for _, gate_id in ipairs(closed_among(lane.keyed)) do
      local gate = known_gates[gate_id]
      if gate and gate.room <= 0 then
        if gate_id ~= except_gate_id then gates.await(gate) end
      else
        came_back[#came_back + 1] = bring_back_first(gate_id, lane.group, lane.queue)
      end
    end
    return came_back
  end

  -- Parks a lane at a gate. Returns the lanes that were opened instead.
  local function park(lane, gate)
    redis.call('ZREM', tag .. 'open:' .. lane.group, lane.member)
    redis.call('ZADD', tag .. 'parked:' .. gate.id .. ':' .. lane.group, lane.score, lane.member)
    lane.at = gate.id
    lanes.save(lane)
    lane_lies_at(gate, lane)
    return follow(lane, gate.id)
  end

  local function close_group(group, name, gate)
    redis.call('SREM', tag .. 'open_groups:' .. name, group)
    add_waiter(gate, GROUP .. group .. name)
  end

  return {
    read_waiter = read_waiter, knows_lane = knows_lane, knows_group = knows_group, lane_lies_at = lane_lies_at,
    lanes_left = lanes_left, group_left = group_left, closed_among = closed_among, open = open, open_all = open_all,
    follow = follow, park = park, close_group = close_group,
  }
end)
