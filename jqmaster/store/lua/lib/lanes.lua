-- include lib/record.lua
-- include lib/lists.lua
-- Lanes: where ready jobs wait; docs/redis_keys.md tells the whole structure.
--
-- A gate is one limit for one key value; its first 8 characters name the constraint. Gates without a key are shared by
-- a whole group of lanes: the jobs of one name under the same of them. A group has a base lane, and in it each job
-- brings its keyed gates along in its record: as long as they are open that is all there is, however many key values
-- there are. A job that a claim finds behind a closed gate goes to a lane of its own kind, and those like it that come
-- later go there at once. Such a lane lies aside at the gate that closed it, out of the way of every claim, and comes
-- back when the gate opens. Of the lanes of one group that lie at an open gate, the first is never there: it is open,
-- and the next follows when it has been served. So neither the closed nor their number cost.
local tag
local loaded_lanes, lanes_by_bytes, changed_lanes, known_limits, known_gates, has_holds = {}, {}, {}, {}, {}, nil
local has_opened = false  -- whether anything came back: the leader must hear of it
local next_opening_ms = nil
local waiting_more, freed_own, text_of = {}, {}, {}
local NO_ROOM_LIMIT = 2 ^ 53
local MAX_REMEMBERED, REMEMBERED_MS = 1000, 60000  -- starts of a gate beyond its period
local CID_LENGTH, ID_LENGTH = 8, 16
local NO_KEY = '0000000000000000'

local function gates_in(text)
  local list = {}
  for at = 1, #text, layout.gates.length do list[#list + 1] = string.sub(text, at, at + layout.gates.length - 1) end
  return list
end

-- A lane is one string: name, edition, group, shared gates, keyed gates, gate at which it lies, priority and place in
-- the order, unfinished jobs. Lanes come and go in any number, and a hash costs several times as much.
-- Written out: every script begins with this, whatever it does then.
local LANE_FIELDS = '^([^\n]*)\n([^\n]*)\n([^\n]*)\n([^\n]*)\n([^\n]*)\n([^\n]*)\n([^\n]*)\n([^\n]*)\n([^\n]*)$'

local function save_lane(lane)
  redis.call('SET', tag .. 'lane:' .. lane.id, table.concat({lane.name, lane.edition, lane.group, table.concat(lane.shared), table.concat(lane.keyed),
    lane.at, string.format('%.0f', lane.score), lane.member, lane.jobs}, '\n'))
end

local function lane_by_id(id, name_if_lost)
  local lane = loaded_lanes[id]
  if lane then return lane end
  local name, edition, group, shared, keyed, at, score, member, jobs = string.match(redis.call('GET', tag .. 'lane:' .. id) or '', LANE_FIELDS)
  lane = {id = id, is_lost = not name, name = name or name_if_lost, edition = tonumber(edition or -1), group = group or id,
    shared = gates_in(shared or ''), keyed = gates_in(keyed or ''), at = at or '', score = tonumber(score or 0), member = member or '',
    jobs = tonumber(jobs or 0), added = {}, removed = {}, taken = 0, jobs_more = 0, waiting_more = 0}
  loaded_lanes[id] = lane
  return lane
end

local function touched(lane)
  if not lane.is_changed then
    lane.is_changed = true
    changed_lanes[#changed_lanes + 1] = lane
  end
  return lane
end

-- The lane of a record's head. A lane whose own key was lost is made anew without gates: it is then of no edition and
-- is matched again by the leader.
local function lane_of(head)
  local bytes = record.lane_id_of(head)
  local lane = lanes_by_bytes[bytes]
  if not lane then
    local id = record.hex(bytes)
    lane = loaded_lanes[id] or lane_by_id(id, record.name_of(head))
    lanes_by_bytes[bytes] = lane
  end
  if lane.is_lost then lane.is_lost, touched(lane).is_new = false, true end
  return lane
end

-- The lane of a group whose jobs have these keyed gates.
local function lane_id(group, keyed)
  return string.sub(redis.sha1hex(group .. table.concat(keyed)), 1, ID_LENGTH)
end

-- The gates that stand from `at` on as a record has them.
local function keyed_gates(bytes, at)
  local list, count = {}, string.byte(bytes, at)
  if count == layout.gates.in_lane then return list end
  for i = at + 1, at + count * layout.gates.length, layout.gates.length do list[#list + 1] = string.sub(bytes, i, i + layout.gates.length - 1) end
  return list
end

-- The keyed gates that a job of the base lane brings along; nil where its lane knows them.
local function own_gates(head)
  local at = layout.name.at + string.byte(head, layout.name.length_at)
  if string.byte(head, at) == 0 then return nil end
  local own = keyed_gates(head, at)
  return #own > 0 and own or nil
end

-- Where a job waits, runs or waited: its lane, and the keyed gates that it brings along (nil: those of the lane).
local function home_of(head)
  local lane = lane_of(head)
  return lane, #lane.keyed == 0 and own_gates(head) or nil
end

-- As `home_of`, of a record that may be readable no further than to its lane; nil where not even that is, or the lane is
-- gone. Third, whether that is all of its gates.
local function home_of_damaged(key)
  local head = record.beginning(key, layout.head.length)
  if #head < layout.head.length then return nil end
  local lane = lane_by_id(record.hex(record.lane_id_of(head)))
  if lane.is_lost then return nil end
  local whole = record.read_head(key)
  if #lane.keyed > 0 then return lane, nil, true end
  return lane, whole ~= '' and own_gates(whole) or nil, whole ~= ''
end

-- `jobs` counts the unfinished of a lane, `waiting` those of them that do not run.
local function lane_counts(lane, own, jobs, waiting)
  touched(lane)
  lane.jobs_more, lane.waiting_more = lane.jobs_more + jobs, lane.waiting_more + waiting
  if own and waiting ~= 0 then
    for _, gate_id in ipairs(own) do waiting_more[gate_id] = (waiting_more[gate_id] or 0) + waiting end
  end
end

local function lane_add(lane, priority, id)
  touched(lane)
  lists.add_pair(lane.added, priority, id)
  local score, first = tonumber(priority), lane.first_added
  if not first or score < first[1] or (score == first[1] and id < first[2]) then lane.first_added = {score, id} end
end

-- A claim takes jobs from the front, and counts them in `taken`.
local function lane_remove(lane, id)
  touched(lane)
  lane.removed[#lane.removed + 1] = id
end

-- The claim of `id` ends: its slots are free when the lanes are written.
local function lane_free(lane, own, id)
  touched(lane)
  -- Only gates have slots.
  if #lane.shared > 0 or #lane.keyed > 0 then table.insert(lists.under(lane, 'freed'), id) end
  if own then
    for _, gate_id in ipairs(own) do table.insert(lists.under(freed_own, gate_id), id) end
  end
end

local function limits_of(cid)
  local limits = known_limits[cid]
  if limits == nil then
    local f = redis.call('HMGET', tag .. 'limits:' .. cid, 'mode', 'concurrency', 'rate_limit', 'rate_period_ms', 'is_paused', 'max_backlog',
      'is_fair', 'has_overrides', 'tracks_slots', 'tracks_starts')
    limits = f[1] and {is_shadow = f[1] == 'shadow', concurrency = tonumber(f[2]), rate_limit = tonumber(f[3]), rate_period_ms = tonumber(f[4]),
      is_paused = f[5] == '1', max_backlog = tonumber(f[6]), is_fair = f[7] == '1', has_overrides = f[8] == '1',
      tracks_slots = f[9] == '1', tracks_starts = f[10] == '1'} or false
    known_limits[cid] = limits
  end
  return limits
end

local function lane_made(id, name, edition, group, shared, keyed)
  local lane = lane_by_id(id)
  if lane.is_lost then
    lane.is_lost, touched(lane).is_new = false, true
    lane.name, lane.edition, lane.group, lane.shared, lane.keyed = name, edition, group, shared, keyed
  end
  return lane
end

-- Whether jobs of a name may lie in lanes of their own kind: the one lane that most names have is the base.
local lanes_of_name = {}
local function may_have_lanes(name)
  if lanes_of_name[name] == nil then lanes_of_name[name] = redis.call('ZCARD', tag .. 'lanes:' .. name) > 1 end
  return lanes_of_name[name]
end

-- Lanes as MessagePack: [[[base lane, name, group, shared gates], …], [[base (its number, from 1), keyed gates as a record
-- has them, keyed gates where the record leaves them to its lane, texts of their key values], …]]
local function lanes_defined(packed)
  local parts = cmsgpack.unpack(packed)
  local definitions, bases = {}, parts[1]
  for i, base in ipairs(bases) do bases[i] = {id = base[1], name = base[2], group = base[3], shared = gates_in(base[4])} end
  for i, part in ipairs(parts[2]) do
    local bytes = part[2]
    local is_in_lane = string.byte(bytes) == layout.gates.in_lane
    definitions[i] = {base = bases[part[1]], bytes = bytes, keyed = is_in_lane and gates_in(part[3]) or keyed_gates(bytes, 1),
      is_in_lane = is_in_lane, texts = part[4]}
  end
  return definitions
end

-- Looks up in one command which of these definitions have a lane of their own already.
local function find_lanes(definitions)
  local found, keys = {}, {}
  for _, definition in ipairs(definitions) do
    definition.is_looked_up = true
    if #definition.keyed > 0 and may_have_lanes(definition.base.name) then
      definition.lane_id = lane_id(definition.base.group, definition.keyed)
      found[#found + 1] = definition
      keys[#keys + 1] = tag .. 'lane:' .. definition.lane_id
    end
  end
  for from = 1, #keys, 1000 do
    for n, lane in ipairs(redis.call('MGET', unpack(keys, from, math.min(from + 999, #keys)))) do
      found[from + n - 1].has_lane = lane and true
    end
  end
end

-- Where a new job waits, by definition `n` of these: lane and own gates, as `home_of`.
local function home_defined(definitions, n, edition)
  local definition = definitions[n]
  if definition.home then return definition.home, definition.own end
  local base, keyed = definition.base, definition.keyed
  local waits_in_lane = definition.is_in_lane
  for i, gate_id in ipairs(keyed) do
    local limits = limits_of(string.sub(gate_id, 1, CID_LENGTH))
    text_of[gate_id] = definition.texts[i]
    -- Also a gate that only running jobs have passed is listed, and goes with the last of them.
    waiting_more[gate_id] = waiting_more[gate_id] or 0
    -- Whose turn it is shows only between lanes.
    waits_in_lane = waits_in_lane or (limits and limits.is_fair)
  end
  if #keyed > 0 then
    if not waits_in_lane and not definition.is_looked_up then find_lanes(definitions) end
    if waits_in_lane or definition.has_lane then
      local id = definition.lane_id or lane_id(base.group, keyed)
      definition.home = lane_made(id, base.name, edition, base.group, base.shared, keyed)
      return definition.home
    end
  end
  base.lane = base.lane or lane_made(base.id, base.name, edition, base.group, base.shared, {})
  definition.home, definition.own = base.lane, #keyed > 0 and keyed or nil
  return definition.home, definition.own
end

local function lane_bytes(lane)
  lane.bytes = lane.bytes or string.gsub(lane.id, '%x%x', function(pair) return string.char(tonumber(pair, 16)) end)
  return lane.bytes
end

-- Writes into a record where its job waits now. `whole`: the record as it is, where the caller has it.
local function write_home(key, head, lane, gates_bytes, whole)
  local at, behind = record.gates_span(head)
  if string.sub(head, at, behind - 1) == gates_bytes then
    redis.call('SETRANGE', key, layout.lane_id.offset, lane_bytes(lane))
  else
    local job = whole or redis.call('GET', key)
    redis.call('SET', key, string.sub(job, 1, layout.lane_id.offset) .. lane_bytes(lane) .. string.sub(job, layout.lane_id.last + 1, at - 1) .. gates_bytes .. string.sub(job, behind))
  end
end

-- Slots are kept under the gates that a claim passes together: `slots:{gates}` for each keyed gate by itself, and for all
-- shared gates of a group at once; of each of those `slot_counts` has the sum. So it costs the same however many there are.
local function is_shared(gates)
  return string.sub(gates, CID_LENGTH + 1, layout.gates.length) == NO_KEY
end

local function slots_used(gate_id)
  if is_shared(gate_id) then return tonumber(redis.call('HGET', tag .. 'slot_counts', gate_id) or 0) end
  return redis.call('HLEN', tag .. 'slots:' .. gate_id)
end

-- The lists of gates under which the slots of this one are kept.
local function lists_with_slots(gate_id)
  if not is_shared(gate_id) then return {gate_id} end
  local lists = {}
  for _, gates in ipairs(redis.call('SMEMBERS', tag .. 'slot_lists')) do
    if string.find(gates, gate_id, 1, true) then lists[#lists + 1] = gates end
  end
  return lists
end

local function count_slots(gates, more)
  for _, gate_id in ipairs(gates_in(gates)) do
    if redis.call('HINCRBY', tag .. 'slot_counts', gate_id, more) == 0 then redis.call('HDEL', tag .. 'slot_counts', gate_id) end
  end
end

-- `holders` alternates job IDs and tokens.
local function take_slots(gates, holders)
  local more = redis.call('HSET', tag .. 'slots:' .. gates, unpack(holders))
  if more > 0 and is_shared(gates) then
    redis.call('SADD', tag .. 'slot_lists', gates)
    count_slots(gates, more)
  end
end

-- Returns how many of these jobs had one.
local function give_slots_back(gates, ids)
  local fewer = redis.call('HDEL', tag .. 'slots:' .. gates, unpack(ids))
  if fewer > 0 and is_shared(gates) then
    if redis.call('EXISTS', tag .. 'slots:' .. gates) == 0 then redis.call('SREM', tag .. 'slot_lists', gates) end
    count_slots(gates, -fewer)
  end
  return fewer
end

-- What a gate lets through now: `room` for so many starts, and `due_ms`, when it may open by time alone.
-- A gate whose constraint is gone is open.
local function gate_of(id, now_ms)
  local gate = known_gates[id]
  if gate then return gate end
  local cid = string.sub(id, 1, CID_LENGTH)
  local limits = limits_of(cid)
  if not limits then
    gate = {id = id, cid = cid, room = NO_ROOM_LIMIT, now_ms = now_ms, taken = 0}
    known_gates[id] = gate
    return gate
  end
  -- All fields at once: a table that grows is made anew several times, for each of hundreds of gates.
  gate = {id = id, cid = cid, room = NO_ROOM_LIMIT, now_ms = now_ms, tracks_slots = limits.tracks_slots, tracks_starts = limits.tracks_starts,
    is_fair = limits.is_fair, is_shadow = limits.is_shadow, is_paused = false, taken = 0, running = nil, concurrency = nil, period_ms = nil}
  known_gates[id] = gate
  local concurrency, rate_limit, period_ms, is_paused = limits.concurrency, limits.rate_limit, limits.rate_period_ms, limits.is_paused
  if limits.has_overrides then
    local override = redis.call('HGET', tag .. 'overrides:' .. gate.cid, id)
    if override then
      local c, r, p, z = string.match(override, '^(%d*),(%d*),(%d*),([01])$')
      concurrency, rate_limit, period_ms = tonumber(c) or concurrency, tonumber(r) or rate_limit, tonumber(p) or period_ms
      is_paused = is_paused or z == '1'
    end
  end
  gate.period_ms = period_ms
  local room = NO_ROOM_LIMIT
  if concurrency then
    gate.running, gate.concurrency = slots_used(id), concurrency
    room = concurrency - gate.running
  end
  if rate_limit then
    -- A start counts through the whole millisecond in which its period ends: two starts that a clock of milliseconds
    -- shows one period apart may be closer.
    local since = now_ms - period_ms
    local starts_key = tag .. 'starts:' .. id
    gate.starts, gate.rate_limit = redis.call('ZCOUNT', starts_key, since, '+inf'), rate_limit
    if gate.starts >= rate_limit then
      local oldest = redis.call('ZRANGEBYSCORE', starts_key, since, '+inf', 'WITHSCORES', 'LIMIT', gate.starts - rate_limit, 1)
      gate.due_ms = tonumber(oldest[2]) + period_ms + 1
    end
    room = math.min(room, rate_limit - gate.starts)
  end
  if has_holds == nil then has_holds = redis.call('EXISTS', tag .. 'holds') == 1 end
  if has_holds then
    local hold_ms = tonumber(redis.call('HGET', tag .. 'holds', id) or 0)
    if hold_ms > now_ms then
      gate.held_until_ms, gate.due_ms, room = hold_ms, math.max(gate.due_ms or 0, hold_ms), 0
    end
  end
  gate.is_paused = is_paused
  if is_paused then gate.due_ms, room = nil, 0 end
  if limits.is_shadow then gate.shadow_room, gate.due_ms = room, nil else gate.room = room end
  return gate
end

local function closed_gate(ids, now_ms)
  for _, id in ipairs(ids) do
    local gate = gate_of(id, now_ms)
    if gate.room <= 0 then return gate end
  end
  return nil
end

-- What this script let through took the room: by time, it comes back when the start ends its period that is too many.
local function reckon_due(gate)
  local starts = gate.starts + gate.taken
  if gate.is_paused or starts < gate.rate_limit then return end
  local oldest_ms = gate.now_ms
  if starts - gate.rate_limit < gate.starts then
    oldest_ms = tonumber(redis.call('ZRANGEBYSCORE', tag .. 'starts:' .. gate.id, gate.now_ms - gate.period_ms, '+inf', 'WITHSCORES', 'LIMIT', starts - gate.rate_limit, 1)[2])
  end
  gate.due_ms = math.max(gate.held_until_ms or 0, oldest_ms + gate.period_ms + 1)
end

local function opens_later(gate)
  if gate.taken > 0 and gate.rate_limit then reckon_due(gate) end
  if gate.due_ms then
    redis.call('ZADD', tag .. 'gates_due', gate.due_ms, gate.id)
    next_opening_ms = math.min(next_opening_ms or gate.due_ms, gate.due_ms)
  end
end

local function closes(gate, waiter)
  redis.call('SADD', tag .. 'waiters:' .. gate.id, waiter)
  redis.call('SADD', tag .. 'closed', gate.id)
  opens_later(gate)
end

-- Nothing lies at this gate any more.
local function waits_no_more(gate_id, waiter)
  redis.call('SREM', tag .. 'waiters:' .. gate_id, waiter)
  if redis.call('EXISTS', tag .. 'waiters:' .. gate_id) == 0 then redis.call('SREM', tag .. 'closed', gate_id) end
end

-- Those of the gates at which something lies.
local function closed_among(gate_ids)
  local closed = {}
  if #gate_ids == 0 or redis.call('EXISTS', tag .. 'closed') == 0 then return closed end
  -- In pieces: a batch may have thousands of gates, more than one command takes.
  for at = 1, #gate_ids, 1000 do
    for i, is_closed in ipairs(redis.call('SMISMEMBER', tag .. 'closed', unpack(gate_ids, at, math.min(at + 999, #gate_ids)))) do
      if is_closed == 1 then closed[#closed + 1] = gate_ids[at + i - 1] end
    end
  end
  return closed
end

-- The first lane of a group that lies at a gate comes back.
local function unpark_first(gate_id, group, name)
  local parked_key = tag .. 'parked:' .. gate_id .. ':' .. group
  local first = redis.call('ZRANGE', parked_key, 0, 1, 'WITHSCORES')
  if not first[1] then return nil end
  if #first < 4 then waits_no_more(gate_id, 'L' .. group .. name) end
  local lane = lane_by_id(string.sub(first[1], -ID_LENGTH))
  redis.call('ZREM', parked_key, first[1])
  redis.call('ZADD', tag .. 'open:' .. group, first[2], first[1])
  redis.call('SADD', tag .. 'open_groups:' .. name, group)
  lane.at = ''
  save_lane(lane)
  has_opened = true
  return lane
end

local function open_gate(gate_id)
  local came_back = {}
  local waiters_key = tag .. 'waiters:' .. gate_id
  for _, waiter in ipairs(redis.call('SMEMBERS', waiters_key)) do
    local group, name = string.sub(waiter, 2, ID_LENGTH + 1), string.sub(waiter, ID_LENGTH + 2)
    if string.sub(waiter, 1, 1) == 'G' then
      redis.call('SADD', tag .. 'open_groups:' .. name, group)
      waits_no_more(gate_id, waiter)
      has_opened = true
    else
      local lane = unpark_first(gate_id, group, name)
      if lane then came_back[#came_back + 1] = lane else waits_no_more(gate_id, waiter) end
    end
  end
  return came_back
end

-- A lane that was open is so no more, or comes later: whom it stood for at its other gates comes next. At a gate that is
-- known to be closed they stay until it opens.
local function succeeded_by(lane, except_gate_id)
  local came_back = {}
  for _, gate_id in ipairs(closed_among(lane.keyed)) do
    local gate = known_gates[gate_id]
    if gate and gate.room <= 0 then
      if gate_id ~= except_gate_id then opens_later(gate) end
    else
      came_back[#came_back + 1] = unpark_first(gate_id, lane.group, lane.name)
    end
  end
  return came_back
end

local function park(lane, gate)
  redis.call('ZREM', tag .. 'open:' .. lane.group, lane.member)
  redis.call('ZADD', tag .. 'parked:' .. gate.id .. ':' .. lane.group, lane.score, lane.member)
  lane.at = gate.id
  save_lane(lane)
  closes(gate, 'L' .. lane.group .. lane.name)
  return succeeded_by(lane, gate.id)
end

local function close_group(group, name, gate)
  redis.call('SREM', tag .. 'open_groups:' .. name, group)
  closes(gate, 'G' .. group .. name)
end

-- Where a lane stands within its priority: by the age of its first job; under a fair constraint not before the
-- instant at which its key was last served.
local function order_of(lane, first_id)
  local order = first_id
  for _, gate_id in ipairs(lane.keyed) do
    local cid = string.sub(gate_id, 1, CID_LENGTH)
    local limits = limits_of(cid)
    if limits and limits.is_fair and not limits.is_shadow then
      local gate = known_gates[gate_id]
      local served = gate and gate.served or redis.call('HGET', tag .. 'served:' .. cid, gate_id)
      if served and served > order then order = served end
    end
  end
  return order
end

-- The first job of a lane as {score, id}, nil where it is empty.
local function first_job(lane)
  if lane.first ~= nil and #lane.added == 0 then return lane.first or nil end
  if lane.member == '' and #lane.removed == 0 and lane.taken == 0 then
    -- It was empty: what was added is all there is.
    return lane.first_added
  end
  local first = redis.call('ZRANGE', tag .. 'ready:' .. lane.id, 0, 0, 'WITHSCORES')
  return first[1] and {tonumber(first[2]), first[1]}
end

local function may_come_first(lane)
  if lane.has_moved or #lane.removed > 0 or lane.taken > 0 or lane.member == '' then return true end
  local added = lane.first_added
  return added and (added[1] < lane.score or (added[1] == lane.score and added[2] < string.sub(lane.member, 1, -ID_LENGTH - 1)))
end

-- Puts changed lanes where their first jobs belong. A lane that lies at a gate and now comes before where it lay may
-- come before the one that is open for it: it is open as well, and the next claim looks at it. Where an open one falls
-- behind, those that it is open for may come before it.
local function place_lanes()
  local leaving, coming, opening, fallen, left = {}, {}, {}, {}, {}
  for _, lane in ipairs(changed_lanes) do
    if may_come_first(lane) then
      local first = first_job(lane)
      local index_key = lane.at == '' and tag .. 'open:' .. lane.group or tag .. 'parked:' .. lane.at .. ':' .. lane.group
      local score, member = lane.score, ''
      if first then score, member = first[1], order_of(lane, first[2]) .. lane.id end
      if score ~= lane.score or member ~= lane.member then
        local comes_sooner = first and (score < lane.score or (score == lane.score and member < lane.member))
        if lane.member ~= '' then
          table.insert(lists.under(leaving, index_key), lane.member)
          if lane.at == '' then
            if not comes_sooner then fallen[#fallen + 1] = lane end
          elseif not first or (comes_sooner and not lane.stays) then
            left[#left + 1] = {lane, index_key, lane.at}
            lane.at, index_key = '', tag .. 'open:' .. lane.group
            has_opened = has_opened or first ~= nil
          end
        end
        if first then
          local list = lists.under(coming, index_key)
          list[#list + 1] = score
          list[#list + 1] = member
          if lane.at == '' then lists.under(opening, lane.name)[lane.group] = true end
        end
        lane.score, lane.member, lane.is_placed = score, member, true
      end
    end
  end
  for key, list in pairs(leaving) do lists.call('ZREM', key, list) end
  for key, list in pairs(coming) do lists.zadd(key, list) end
  for name, groups in pairs(opening) do
    for group in pairs(groups) do redis.call('SADD', tag .. 'open_groups:' .. name, group) end
  end
  for _, item in ipairs(left) do
    local lane, index_key, gate_id = item[1], item[2], item[3]
    if redis.call('EXISTS', index_key) == 0 then waits_no_more(gate_id, 'L' .. lane.group .. lane.name) end
  end
  for _, lane in ipairs(fallen) do succeeded_by(lane, nil) end
end

-- Lanes with keys come in any number and go with their last job; the others are few, and the leader removes them.
local function drop_lanes(lanes)
  local keys, names = {}, {}
  for _, lane in ipairs(lanes) do
    keys[#keys + 1] = tag .. 'lane:' .. lane.id
    table.insert(lists.under(names, lane.name), lane.id)
  end
  redis.call('UNLINK', unpack(keys))
  for name, ids in pairs(names) do
    redis.call('ZREM', tag .. 'lanes:' .. name, unpack(ids))
    if redis.call('EXISTS', tag .. 'lanes:' .. name) == 0 then
      redis.call('SREM', tag .. 'names', name)
      redis.call('HDEL', tag .. 'ready_counts', name)
    end
  end
  for _, lane in ipairs(lanes) do
    if redis.call('EXISTS', tag .. 'open:' .. lane.group) == 0 then
      redis.call('SREM', tag .. 'open_groups:' .. lane.name, lane.group)
      for _, gate_id in ipairs(lane.shared) do waits_no_more(gate_id, 'G' .. lane.group .. lane.name) end
    end
  end
end

local function write_new_lanes()
  local names = {}
  for _, lane in ipairs(changed_lanes) do
    if lane.is_new then
      local list = lists.under(names, lane.name)
      list[#list + 1] = lane.edition
      list[#list + 1] = lane.id
    end
  end
  for name, list in pairs(names) do
    lists.zadd(tag .. 'lanes:' .. name, list)
    redis.call('SADD', tag .. 'names', name)
  end
end

local function free_slots(freed, unstarted_tokens)
  local gate_ids = {}
  local function never_started(gate_id)
    return unstarted_tokens and lists.call('ZREM', tag .. 'starts:' .. gate_id, unstarted_tokens) or 0
  end
  -- Where nothing was held, there is no more room than before.
  for gates, lists in pairs(freed) do
    local count = 0
    for _, ids in ipairs(lists) do count = count + give_slots_back(gates, ids) end
    for _, gate_id in ipairs(gates_in(gates)) do
      if count + never_started(gate_id) > 0 then gate_ids[#gate_ids + 1] = gate_id end
    end
  end
  for gate_id, ids in pairs(freed_own) do
    if give_slots_back(gate_id, ids) + never_started(gate_id) > 0 then gate_ids[#gate_ids + 1] = gate_id end
  end
  for _, gate_id in ipairs(closed_among(gate_ids)) do open_gate(gate_id) end
end

-- What is kept of a gate: how many jobs wait behind it, and its key's value for people.
local function split_note(note)
  local colon = note and string.find(note, ':', 1, true)
  if not colon then return 0, nil end
  return tonumber(string.sub(note, 1, colon - 1)), string.sub(note, colon + 1)
end

local function note_of(gate_id)
  return split_note(redis.call('HGET', tag .. 'gates:' .. string.sub(gate_id, 1, CID_LENGTH), gate_id))
end

-- The power of two below: to find the gates with the most waiting jobs it is enough to note when it changes.
local function crowd(waiting)
  local _, exponent = math.frexp(waiting)
  return waiting >= 2 and exponent - 1 or 0
end

-- In a few commands for all gates of a constraint: some for each would cost as much as all else.
local function write_notes(cid, gate_ids, from, last)
  local key, noted, gone, crowded, uncrowded = tag .. 'gates:' .. cid, {}, {}, {}, {}
  for i, note in ipairs(redis.call('HMGET', key, unpack(gate_ids, from, last))) do
    local gate_id = gate_ids[from + i - 1]
    local before, text = split_note(note)
    local waiting = before + waiting_more[gate_id]
    -- Of a key value that is idle the leader forgets; not of a constraint that is gone, whom it may have forgotten before.
    if waiting == 0 and (is_shared(gate_id) or not limits_of(cid)) then
      if note then gone[#gone + 1] = gate_id end
    elseif not note or waiting ~= before then
      noted[#noted + 1] = gate_id
      noted[#noted + 1] = string.format('%.0f:', waiting) .. (text or text_of[gate_id] or '')
    end
    local its_crowd = crowd(waiting)
    if its_crowd ~= crowd(before) then
      if its_crowd > 0 then
        crowded[#crowded + 1] = its_crowd
        crowded[#crowded + 1] = gate_id
      else
        uncrowded[#uncrowded + 1] = gate_id
      end
    end
  end
  lists.call('HSET', key, noted)
  lists.call('HDEL', key, gone)
  lists.zadd(tag .. 'crowded:' .. cid, crowded)
  lists.call('ZREM', tag .. 'crowded:' .. cid, uncrowded)
end

local function write_waiting()
  local of_cid = {}
  for gate_id, more in pairs(waiting_more) do
    if more ~= 0 or text_of[gate_id] then table.insert(lists.under(of_cid, string.sub(gate_id, 1, CID_LENGTH)), gate_id) end
  end
  for cid, gate_ids in pairs(of_cid) do
    for from = 1, #gate_ids, 500 do write_notes(cid, gate_ids, from, math.min(from + 499, #gate_ids)) end
  end
end

-- Writes what was gathered; call it once, after the records. `unstarted_tokens` are of starts that never were.
local function write_lanes(unstarted_tokens)
  local freed, ready_more = {}, {}
  write_new_lanes()
  for _, lane in ipairs(changed_lanes) do
    local ready_key = tag .. 'ready:' .. lane.id
    -- Before any is added: what was taken is counted from the front.
    local more = lane.taken > 0 and -redis.call('ZREMRANGEBYRANK', ready_key, 0, lane.taken - 1) or 0
    more = more + lists.zadd(ready_key, lane.added) - lists.call('ZREM', ready_key, lane.removed)
    if more ~= 0 and lane.name then ready_more[lane.name] = (ready_more[lane.name] or 0) + more end
    if lane.waiting_more ~= 0 then
      for _, list in ipairs({lane.shared, lane.keyed}) do
        for _, gate_id in ipairs(list) do waiting_more[gate_id] = (waiting_more[gate_id] or 0) + lane.waiting_more end
      end
    end
    if lane.freed then
      if #lane.shared > 0 then table.insert(lists.under(freed, table.concat(lane.shared)), lane.freed) end
      for _, gate_id in ipairs(lane.keyed) do table.insert(lists.under(freed, gate_id), lane.freed) end
    end
  end
  write_waiting()
  for name, more in pairs(ready_more) do
    if more ~= 0 then redis.call('HINCRBY', tag .. 'ready_counts', name, more) end
  end
  place_lanes()
  free_slots(freed, unstarted_tokens)
  local dropped = {}
  for _, lane in ipairs(changed_lanes) do
    lane.jobs = lane.jobs + lane.jobs_more
    if lane.jobs <= 0 and #lane.keyed > 0 then
      dropped[#dropped + 1] = lane
    elseif lane.is_new or lane.is_placed or lane.jobs_more ~= 0 then
      save_lane(lane)
    end
    lane.jobs_more = 0
  end
  if #dropped > 0 then drop_lanes(dropped) end
end

-- How long a gate remembers its starts: for one period at least. Beyond it for as many whole periods as hold at most
-- `MAX_REMEMBERED` starts, up to `REMEMBERED_MS`, so that a period that is made longer finds what started before.
local function remembered_ms(gate)
  if not gate.rate_limit then return REMEMBERED_MS end
  return math.max(gate.period_ms, math.min(REMEMBERED_MS, gate.period_ms * math.floor(MAX_REMEMBERED / gate.rate_limit)))
end

local function note_starts(gate, begun, now_ms)
  local key, kept_ms = tag .. 'starts:' .. gate.id, remembered_ms(gate)
  redis.call('ZREMRANGEBYSCORE', key, '-inf', '(' .. string.format('%.0f', now_ms - kept_ms))
  redis.call('ZADD', key, unpack(begun))
  -- One value without a rate, where others have one: nothing else bounds its starts.
  if not gate.rate_limit then redis.call('ZREMRANGEBYRANK', key, 0, -MAX_REMEMBERED - 1) end
  -- Older starts say nothing more, whoever's clock moved.
  redis.call('PEXPIRE', key, kept_ms + 1000)
end

-- Claims pass these gates, all shared or all keyed: `holders` alternates job IDs and tokens, `begun` instants and tokens,
-- of the same claims.
local function pass_gates(gate_ids, holders, begun, now_ms)
  local is_held = false
  for _, gate_id in ipairs(gate_ids) do
    local gate = gate_of(gate_id, now_ms)
    is_held = is_held or gate.tracks_slots
    if gate.tracks_slots and not is_shared(gate_id) then take_slots(gate_id, holders) end
    if gate.tracks_starts then note_starts(gate, begun, now_ms) end
  end
  if is_held and is_shared(gate_ids[1]) then take_slots(table.concat(gate_ids), holders) end
end

-- Nothing passes this gate before `until_ms`; a longer hold stays.
local function hold_gate(gate_id, until_ms)
  local held = tonumber(redis.call('HGET', tag .. 'holds', gate_id) or 0)
  if until_ms > held then
    redis.call('HSET', tag .. 'holds', gate_id, string.format('%.0f', until_ms))
    redis.call('ZADD', tag .. 'gates_due', until_ms, gate_id)
  end
end
