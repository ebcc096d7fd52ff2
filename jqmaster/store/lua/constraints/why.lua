#!lua flags=no-writes
-- Where a job stands, all at one instant: the gates that it has to pass as a claim would see them, and how many jobs come before it.
-- KEYS rules:hash leader:string running:zset
-- ARGV now_ms tag job_id head_bytes max_holders(of each closed gate) max_lanes(looked at) is_keyed(1: jobs of one lane may bring gates of their own along) [+ name(that may come before it)]
-- REPLY ok:now_ms,record_beginning,1 if a master leads,edition,edition in force,edition of its lane(-1: unknown),lease or deadline ms(-1: none),[[gate, key value, waiting, 1 if closed, concurrency, running, rate limit, period_ms, starts, held_until_ms, is_paused, is_shadow, is_fair, is_override, opens_at_ms(-1: unknown), [job, since_ms, worker_id_bytes]] numbers -1: none],1 if ready,[name, jobs before it],bound(0: exact, 1: at least, 2: about),fault(why no claim finds this ready job; empty: one does) | unknown
-- CHECKS FIRST that the job exists; it writes nothing
-- include lib/clock.lua
-- include lib/record.lua
-- include lib/lanes.lua
-- include lib/lane_fault.lua
local rules_key, leader_key, running_key = KEYS[1], KEYS[2], KEYS[3]
local now_ms, job_id, head_bytes, max_holders, max_lanes, is_keyed = clock.now_ms(ARGV[1]), ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7] == '1'
tag = ARGV[2]
local FIRST = 8
-- Holders looked at in one call and at one gate, groups of lanes looked at for one gate or name, and waiting jobs.
local MAX_HEADS, MAX_HELD, MAX_GROUPS, MAX_JOBS = 500, 100, 200, 500
-- After every ID and every instant at which a lane was served.
local LAST = '~'

local head = record.beginning(tag .. 'job:' .. job_id, head_bytes)
if #head == 0 and redis.call('EXISTS', tag .. 'job:' .. job_id) == 0 then return {'unknown'} end
local state = record.state_of(head)
local WAITING = layout.is_waiting
local is_waiting = WAITING[state]
local whole = record.read_head(tag .. 'job:' .. job_id)
local rules = redis.call('HMGET', rules_key, 'edition', 'settled')
local edition = tonumber(rules[1] or 0)
local lane = whole ~= '' and lane_by_id(record.hex(record.lane_id_of(whole)))

-- --- gates

local heads_read = 0
local function add_holders(ids, key)
  if redis.call('HLEN', key) <= MAX_HELD then
    for _, id in ipairs(redis.call('HKEYS', key)) do ids[#ids + 1] = id end
  else
    for n, part in ipairs(redis.call('HSCAN', key, 0, 'COUNT', MAX_HELD)[2]) do
      if n % 2 == 1 then ids[#ids + 1] = part end
    end
  end
end

local function holders_of(gate_id)
  local ids = {}
  for _, gates in ipairs(lists_with_slots(gate_id)) do
    if #ids < MAX_HELD then add_holders(ids, tag .. 'slots:' .. gates) end
  end
  local found = {}
  for n = 1, math.min(#ids, MAX_HELD, MAX_HEADS - heads_read) do
    local holder = record.beginning(tag .. 'job:' .. ids[n], layout.worker_id.last)
    heads_read = heads_read + 1
    if #holder == layout.worker_id.last then found[#found + 1] = {ids[n], record.int64(holder, layout.started_at_ms.at), record.worker_of(holder)} end
  end
  table.sort(found, function(a, b) return a[2] < b[2] or (a[2] == b[2] and a[1] < b[1]) end)
  local flat = {}
  for n = 1, math.min(#found, max_holders) do
    for part = 1, 3 do flat[#flat + 1] = found[n][part] end
  end
  return flat
end

local passed, gates = {}, {}
if lane and lane.edition == edition and (is_waiting or state == layout.STATE.running) then
  for _, list in ipairs({lane.shared, #lane.keyed == 0 and own_gates(whole) or lane.keyed}) do
    for _, id in ipairs(list) do
      local gate = gate_of(id, now_ms)
      passed[#passed + 1], passed[id] = id, true
      local room = gate.shadow_room or gate.room
      local is_full = gate.concurrency and gate.running >= gate.concurrency
      local waiting, text = note_of(id)
      gates[#gates + 1] = {id, text or '', waiting, room <= 0 and 1 or 0, gate.concurrency or -1,
        gate.running or -1, gate.rate_limit or -1, gate.period_ms or -1, gate.starts or -1, gate.held_until_ms or -1,
        gate.is_paused and 1 or 0, gate.is_shadow and 1 or 0, gate.is_fair and 1 or 0,
        redis.call('HEXISTS', tag .. 'overrides:' .. gate.cid, id), gate.due_ms or -1,
        is_full and is_waiting and holders_of(id) or {}}
    end
  end
end

-- --- who comes before it

local EXACT, AT_LEAST, ABOUT = 0, 1, 2
local bound = EXACT
local function is_fair(other)
  for _, gate_id in ipairs(other.keyed) do
    local limits = limits_of(string.sub(gate_id, 1, CID_LENGTH))
    if limits and limits.is_fair and not limits.is_shadow then return true end
  end
  return false
end

-- Whether both wait their turn at the same gate: then what serves one serves the other.
local function shares_turn(other)
  for _, gate_id in ipairs(other.keyed) do
    if passed[gate_id] and gate_of(gate_id, now_ms).is_fair then return true end
  end
  return false
end

-- Of an ordered set with members of one length: how many have a smaller score, and how many the same and a smaller member.
local function count_before(key, score, member)
  local smaller = redis.call('ZCOUNT', key, '-inf', '(' .. score)
  local low, high = smaller, redis.call('ZCOUNT', key, '-inf', score)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if redis.call('ZRANGE', key, middle, middle)[1] < member then low = middle + 1 else high = middle end
  end
  return smaller, low - smaller
end

local is_ready, ahead, names = 0, {}, {}
local jobs_left = MAX_JOBS
local lanes_left, seen_lanes, seen_groups, taken = max_lanes, {}, {}, {}
local own_score, own_before, own_turns, own_is_fair, own_order, own_first

-- For how many jobs there is room at the gates of a lane or job that this one does not have to pass as well: where both
-- wait at the same gate, all that come earlier start earlier.
local function room_before(...)
  local room, others = NO_ROOM_LIMIT, {}
  for _, list in ipairs({...}) do
    for _, gate_id in ipairs(list) do
      if not passed[gate_id] then
        others[#others + 1] = gate_id
        room = math.min(room, gate_of(gate_id, now_ms).room - (taken[gate_id] or 0))
      end
    end
  end
  return room, others
end

local function take_room(gate_ids, count)
  for _, gate_id in ipairs(gate_ids) do taken[gate_id] = (taken[gate_id] or 0) + count end
end

-- Of the first jobs of a lane so many as have room at the gates that each brings along.
local function admissible(other, jobs)
  local count, start = 0, 0
  while start < jobs do
    if jobs_left <= 0 then
      bound = math.max(bound, AT_LEAST)
      return count
    end
    local page = redis.call('ZRANGE', tag .. 'ready:' .. other.id, start, math.min(start + 100, start + jobs_left, jobs) - 1)
    for _, id in ipairs(page) do
      local its_head = record.read_head(tag .. 'job:' .. id)
      local room, others = room_before(other.shared, its_head ~= '' and own_gates(its_head) or {})
      if room > 0 then
        count = count + 1
        take_room(others, 1)
      end
    end
    start, jobs_left = start + #page, jobs_left - #page
    if #page == 0 then return count end
  end
  return count
end

-- How many jobs of another lane start before this one.
local function jobs_before(other)
  local room, others = room_before(other.shared, other.keyed)
  if room <= 0 then return 0 end
  local key = tag .. 'ready:' .. other.id
  local smaller, same
  if is_fair(other) then
    smaller = redis.call('ZCOUNT', key, '-inf', '(' .. own_score)
    same = redis.call('ZCOUNT', key, own_score, own_score)
    local first = redis.call('ZRANGE', key, 0, 0)[1]
    local turns = own_is_fair and own_turns or 0
    -- Whoever was served goes to the end of its priority.
    if smaller == 0 and first and order_of(other, first) .. other.id < own_first then turns = turns + 1 end
    same = math.min(same, turns)
    -- Turns that are still to come go by more than this look can tell.
    if own_is_fair and smaller + same > 0 and (own_before > 0 or shares_turn(other)) then bound = math.max(bound, ABOUT) end
  else
    smaller, same = count_before(key, own_score, own_order)
    if is_keyed and #other.keyed == 0 then return admissible(other, smaller + same) end
  end
  local count = math.min(smaller + same, room)
  take_room(others, count)
  return count
end

-- The lanes of an order (`open` or `parked`) up to where this job stands.
local function walk(order_key, name)
  local start, is_first = 0, true
  while true do
    local page = redis.call('ZRANGE', order_key, start, start + 99, 'WITHSCORES')
    for at = 1, #page, 2 do
      local score, member = tonumber(page[at + 1]), page[at]
      if score > own_score or (score == own_score and member > own_order) then return end
      if lanes_left <= 0 then
        bound = math.max(bound, AT_LEAST)
        return
      end
      lanes_left = lanes_left - 1
      local other = lane_by_id(string.sub(member, -ID_LENGTH))
      -- What closes one lane of a group without a key closes all of them.
      if is_first and (other.edition ~= edition or room_before(other.shared) <= 0) then return end
      is_first = false
      if not seen_lanes[other.id] then
        seen_lanes[other.id] = true
        ahead[name] = (ahead[name] or 0) + jobs_before(other)
      end
    end
    if #page < 200 then return end
    start = start + 100
  end
end

local function walk_group(group, name)
  if seen_groups[group] then return end
  seen_groups[group] = true
  walk(tag .. 'open:' .. group, name)
end

local function count_ahead()
  local ready_key = tag .. 'ready:' .. lane.id
  local score = redis.call('ZSCORE', ready_key, job_id)
  if not score then return end
  is_ready, own_score = 1, tonumber(score)
  local smaller, same = count_before(ready_key, own_score, job_id)
  local own_name = record.name_of(whole)
  own_before, own_turns, own_is_fair = smaller + same, same, is_fair(lane)
  own_first = (own_is_fair and order_of(lane, redis.call('ZRANGE', ready_key, 0, 0)[1]) or job_id) .. lane.id
  own_order = (own_is_fair and own_before > 0) and LAST or own_first
  seen_lanes[lane.id] = true
  ahead[own_name] = (is_keyed and #lane.keyed == 0) and admissible(lane, own_before) or own_before
  local is_asked = {[own_name] = true}
  for i = FIRST, #ARGV do is_asked[ARGV[i]] = true end
  for name in pairs(is_asked) do names[#names + 1] = name end
  table.sort(names, function(a, b) return a == own_name or (b ~= own_name and a < b) end)
  walk_group(lane.group, own_name)
  -- Who lies aside at the same gates starts before it as well, when they open.
  for _, gate_id in ipairs(passed) do
    local waiters_key = tag .. 'waiters:' .. gate_id
    if redis.call('SCARD', waiters_key) > MAX_GROUPS then
      bound = math.max(bound, AT_LEAST)
    else
      for _, waiter in ipairs(redis.call('SMEMBERS', waiters_key)) do
        local group, name = string.sub(waiter, 2, ID_LENGTH + 1), string.sub(waiter, ID_LENGTH + 2)
        if is_asked[name] then
          if string.sub(waiter, 1, 1) == 'G' then walk_group(group, name)
          else walk(tag .. 'parked:' .. gate_id .. ':' .. group, name) end
        end
      end
    end
  end
  for _, name in ipairs(names) do
    local groups_key = tag .. 'open_groups:' .. name
    if redis.call('SCARD', groups_key) > MAX_GROUPS then bound = math.max(bound, AT_LEAST)
    else
      for _, group in ipairs(redis.call('SMEMBERS', groups_key)) do walk_group(group, name) end
    end
  end
  if lane.at ~= '' and gate_of(lane.at, now_ms).room > 0 then
    -- Another lane of its group goes through this gate first, whoever its jobs are.
    local total = 0
    for _, count in pairs(ahead) do total = total + count end
    if total == 0 then ahead[own_name], bound = 1, AT_LEAST end
  end
end

local fault = ''
if state == layout.STATE.ready and lane then
  fault = redis.call('ZSCORE', tag .. 'ready:' .. lane.id, job_id) and fault_of(lane.id, edition) or 'is not in the list of its lane'
  if fault == '' and lane.edition == edition then count_ahead() end
end
local by_name = {}
for _, name in ipairs(names) do
  if (ahead[name] or 0) > 0 then
    by_name[#by_name + 1] = name
    by_name[#by_name + 1] = ahead[name]
  end
end
return {'ok', now_ms, head, redis.call('EXISTS', leader_key), edition, tonumber(rules[2] or 0), lane and lane.edition or -1,
  tonumber(redis.call('ZSCORE', running_key, job_id) or -1), gates, is_ready, by_name, bound, fault}
