#!lua
-- Accepts new jobs, each by itself: a repeat of an accepted one changes nothing that anyone can see.
-- KEYS scheduled:zset expiring:zset rules:hash
-- ARGV now_ms tag wake_channel(empty: nobody to wake) edition
--   push(each: by itself; whole: a backlog that is full refuses all; rest: what follows of a whole that was let in)
--   following(MessagePack: [[lane, jobs of the same push that follow in further calls]])
--   lanes(as lib/homes.lua reads them) mark(of the data; empty: whatever it is) [+ id terms(priority to expires_at_ms
--   as in the record, u8 flags, i64 run_at_ms or -1, i64 delay_ms or -1, u16 number of its lane from 1) digest
--   rest_of_record(behind the lane)]
-- REPLY ok:now_ms,[1 accepted, 0 known already, -1 taken by another request, -2 its backlog is full],gate whose backlog
--   is full(empty: none) | stale_rules | other_data
-- CHECKS FIRST the mark of the data; the edition of the rules; whether each ID is taken, and by what; how much waits
--   behind each gate
-- include lib/clock.lua
-- include lib/lists.lua
-- include lib/constraints.lua
-- include lib/waiting.lua
-- include lib/lanes.lua
-- include lib/lane_writes.lua
-- include lib/homes.lua
local scheduled_key, expiring_key, rules_key = KEYS[1], KEYS[2], KEYS[3]
local now_ms, wake_channel, edition = clock.now_ms(ARGV[1]), ARGV[3], ARGV[4]
local tag = ARGV[2]
local push, following, definitions, mark = ARGV[5], cmsgpack.unpack(ARGV[6]), homes.read(ARGV[7]), ARGV[8]
local job_prefix = tag .. 'job:'
local FIRST, WIDTH = 9, 4

local held = redis.call('HMGET', rules_key, 'edition', 'mark')
if mark ~= '' and held[2] ~= mark then return {'other_data'} end
if (held[1] or '0') ~= edition then return {'stale_rules'} end
local count = (#ARGV - FIRST + 1) / WIDTH
local keys = {}
for i = 1, count do keys[i] = job_prefix .. ARGV[FIRST + (i - 1) * WIDTH] end
local some_taken = redis.call('EXISTS', unpack(keys)) > 0

-- Room behind each gate that bounds its backlog; nil for the others.
local rooms = {}
local function backlog_room(gate_id)
  local room = rooms[gate_id]
  if room == nil then
    local limits = constraints.limits_of(gate_id)
    room = limits and limits.max_backlog and limits.max_backlog - (waiting.at(gate_id)) or false
    rooms[gate_id] = room
  end
  return room
end

local full_gate = ''
local backlogs = {}  -- of each lane, the gates that bound it
local function bounding_gates(number)
  if not backlogs[number] then
    local list, definition = {}, definitions[number]
    for _, ids in ipairs(push == 'rest' and {} or {definition.base.shared, definition.keyed}) do
      for _, gate_id in ipairs(ids) do
        local limits = constraints.limits_of(gate_id)
        if backlog_room(gate_id) and not limits.is_shadow then list[#list + 1] = gate_id end
      end
    end
    backlogs[number] = list
  end
  return backlogs[number]
end

-- Jobs of one push have their terms in common, as a rule: what follows from these is made once. `head` is the record up
-- to the digest.
local kinds, kinds_seen = {}, {}
-- Within the terms, which begin with the priority, the time of creation is still empty.
local CREATED_AT = layout.created_at_ms.at - layout.priority.offset
local CREATED_LAST = layout.created_at_ms.last - layout.priority.offset
local TERMS_LENGTH = layout.expires_at_ms.last - layout.priority.offset
-- From the start to the worker.
local now_bytes = struct.pack('>i8', now_ms)
local nothing_yet = string.rep('\0', layout.worker_id.last - layout.due_at_ms.last)
local function kind_of(terms)
  local kind = kinds[terms]
  if kind then return kind end
  local priority, _, _, _, expires_at_ms, flags, run_at_ms, delay_ms, number =
    struct.unpack('>i4I4i8i8i8Bi8i8I2', terms)
  local due_at_ms = delay_ms > 0 and now_ms + delay_ms or run_at_ms ~= -1 and run_at_ms or 0
  local state = due_at_ms > now_ms and layout.STATE.scheduled or layout.STATE.ready
  kind = {number = number, gates = bounding_gates(number), due_at_ms = due_at_ms,
    is_due = state == layout.STATE.ready, priority = priority, expires_at_ms = expires_at_ms,
    accepted = 0, lane = nil, own = nil, lane_bytes = nil,
    head = struct.pack('>BBBBI4I4I2I2i8', layout.VERSION, state, flags, layout.CAUSE.none, 0, 0, 0, 0, due_at_ms)
      .. nothing_yet .. string.sub(terms, 1, CREATED_AT - 1) .. now_bytes
      .. string.sub(terms, CREATED_LAST + 1, TERMS_LENGTH)}
  kinds[terms] = kind
  kinds_seen[#kinds_seen + 1] = kind
  return kind
end

for _, item in ipairs(following) do
  for _, gate_id in ipairs(bounding_gates(item[1])) do rooms[gate_id] = rooms[gate_id] - item[2] end
end
local status, seen, is_new = {}, {}, false
for i = 1, count do
  local at = FIRST + (i - 1) * WIDTH
  status[i] = 1
  local digest = seen[keys[i]]
  if not digest and some_taken and redis.call('EXISTS', keys[i]) == 1 then
    digest = redis.pcall('GETRANGE', keys[i], layout.digest.offset, layout.digest.last - 1)
  end
  if digest then
    status[i] = digest == ARGV[at + 2] and 0 or -1
  else
    local bounding = kind_of(ARGV[at + 1]).gates
    is_new = true
    for _, gate_id in ipairs(bounding) do
      if rooms[gate_id] <= 0 then
        status[i], full_gate = -2, gate_id
      end
    end
    if status[i] == 1 then
      seen[keys[i]] = ARGV[at + 2]
      for _, gate_id in ipairs(bounding) do rooms[gate_id] = rooms[gate_id] - 1 end
    end
  end
end
-- If all of these are known, the push was accepted before.
if push == 'whole' and is_new then
  for _, item in ipairs(following) do
    for _, gate_id in ipairs(bounding_gates(item[1])) do
      if rooms[gate_id] < 0 then full_gate = gate_id end
    end
  end
end
if push == 'whole' and full_gate ~= '' then
  for i = 1, count do status[i] = -2 end
  return {'ok', now_ms, status, full_gate}
end

local scheduled, expiring, records, filled, wakes = {}, {}, {}, 0, false
for i = 1, count do
  local at = FIRST + (i - 1) * WIDTH
  if status[i] == 1 then
    local id, kind = ARGV[at], kinds[ARGV[at + 1]]
    if not kind.lane then
      kind.lane, kind.own = homes.of(definitions, kind.number, tonumber(edition))
      kind.lane_bytes = lanes.bytes_of(kind.lane)
    end
    kind.accepted = kind.accepted + 1
    records[filled + 1], records[filled + 2] = keys[i], kind.head .. ARGV[at + 2] .. kind.lane_bytes .. ARGV[at + 3]
    filled = filled + 2
    if kind.is_due then
      lanes.add(kind.lane, kind.priority, id)
      wakes = true
    else
      lists.add_pair(scheduled, kind.due_at_ms, id)
    end
    if kind.expires_at_ms > 0 then lists.add_pair(expiring, kind.expires_at_ms, id) end
  elseif status[i] == 0 then
    -- A repeat writes what is there already: WAIT on its connection would else confirm a write that never replicated.
    redis.call('SETRANGE', keys[i], layout.digest.offset, ARGV[at + 2])
  end
end
for _, kind in ipairs(kinds_seen) do
  if kind.lane then lanes.count(kind.lane, kind.own, kind.accepted, kind.accepted) end
end
if #records > 0 then redis.call('MSET', unpack(records)) end
lane_writes.write(nil)
lists.zadd(scheduled_key, scheduled)
lists.zadd(expiring_key, expiring)
if wake_channel ~= '' then
  if wakes then redis.call('PUBLISH', wake_channel, 'ready') end
  if #scheduled > 0 then redis.call('PUBLISH', wake_channel, 'due') end
end
return {'ok', now_ms, status, full_gate}
