#!lua
-- Accepts new jobs, each by itself: a repeat of an accepted one changes nothing that anyone can see.
-- KEYS scheduled:zset expiring:zset rules:hash
-- ARGV now_ms tag wake_channel(empty: nobody to wake) edition push(each: by itself; whole: a backlog that is full refuses all; rest: what follows of a whole that was let in) following(MessagePack: [[lane, jobs of the same push that follow in further calls]]) lanes(as lanes_defined takes them) [+ id lane(its number, from 1) flags due(empty: now, +ms: after that, ms: at that) priority expires_at_ms(0: never) digest rest_of_record]
-- REPLY ok:now_ms,[1 accepted, 0 known already, -1 taken by another request, -2 its backlog is full],gate whose backlog is full(empty: none) | stale_rules
-- CHECKS FIRST the edition of the rules; whether each ID is taken, and by what; how much waits behind each gate
-- include lib/time.lua
-- include lib/record.lua
-- include lib/lanes.lua
local scheduled_key, expiring_key, rules_key = KEYS[1], KEYS[2], KEYS[3]
local now_ms, wake_channel, edition = time_ms(ARGV[1]), ARGV[3], ARGV[4]
tag = ARGV[2]
local push, following, definitions = ARGV[5], cmsgpack.unpack(ARGV[6]), lanes_defined(ARGV[7])
local job_prefix = tag .. 'job:'
local FIRST, WIDTH = 8, 8

if (redis.call('HGET', rules_key, 'edition') or '0') ~= edition then return {'stale_rules'} end
local count = (#ARGV - FIRST + 1) / WIDTH
local keys = {}
for i = 1, count do keys[i] = job_prefix .. ARGV[FIRST + (i - 1) * WIDTH] end
local some_taken = redis.call('EXISTS', unpack(keys)) > 0

-- Room behind each gate that bounds its backlog; nil for the others.
local rooms = {}
local function backlog_room(gate_id)
  local room = rooms[gate_id]
  if room == nil then
    local cid = string.sub(gate_id, 1, CID_LENGTH)
    local limits = limits_of(cid)
    room = limits and limits.max_backlog and limits.max_backlog - (note_of(gate_id)) or false
    rooms[gate_id] = room
  end
  return room
end

local full_gate = ''
local backlogs = {}  -- of each lane, the gates that bound it
local function bounding_gates(number)
  if not backlogs[number] then
    local list, definition = {}, definitions[number]
    for _, gate_ids in ipairs(push == 'rest' and {} or {definition.base.shared, definition.keyed}) do
      for _, gate_id in ipairs(gate_ids) do
        local limits = limits_of(string.sub(gate_id, 1, CID_LENGTH))
        if backlog_room(gate_id) and not limits.is_shadow then list[#list + 1] = gate_id end
      end
    end
    backlogs[number] = list
  end
  return backlogs[number]
end

for _, item in ipairs(following) do
  for _, gate_id in ipairs(bounding_gates(item[1])) do rooms[gate_id] = rooms[gate_id] - item[2] end
end
local status, seen, gates_of, is_new = {}, {}, {}, false
for i = 1, count do
  local at = FIRST + (i - 1) * WIDTH
  status[i] = 1
  local digest = seen[keys[i]]
  if not digest and some_taken and redis.call('EXISTS', keys[i]) == 1 then
    digest = redis.pcall('GETRANGE', keys[i], 120, 127)
  end
  if digest then
    status[i] = digest == ARGV[at + 6] and 0 or -1
  else
    local gates = gates_of[ARGV[at + 1]] or bounding_gates(tonumber(ARGV[at + 1]))
    gates_of[ARGV[at + 1]] = gates
    is_new = true
    for _, gate_id in ipairs(gates) do
      if rooms[gate_id] <= 0 then
        status[i], full_gate = -2, gate_id
      end
    end
    if status[i] == 1 then
      seen[keys[i]] = ARGV[at + 6]
      for _, gate_id in ipairs(gates) do rooms[gate_id] = rooms[gate_id] - 1 end
    end
  end
end
-- Where all of these are known, the push was let in before.
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

local scheduled, expiring, records, wakes = {}, {}, {}, false
local now_bytes, nothing_yet = struct.pack('>i8', now_ms), string.rep('\0', 64)
local heads = {}  -- by flags: how the record of a job begins that is ready at once
for i = 1, count do
  local at = FIRST + (i - 1) * WIDTH
  if status[i] == 1 then
    local id, flags, due, rest = ARGV[at], ARGV[at + 2], ARGV[at + 3], ARGV[at + 7]
    local due_at_ms, state, head = 0, STATE.ready, nil
    if due == '' then
      head = heads[flags]
    else
      due_at_ms = string.sub(due, 1, 1) == '+' and now_ms + tonumber(string.sub(due, 2)) or tonumber(due)
      if due_at_ms > now_ms then state = STATE.scheduled end
    end
    if not head then
      head = struct.pack('>BBBBI4I4I2I2i8', VERSION, state, tonumber(flags), 0, 0, 0, 0, 0, due_at_ms) .. nothing_yet
      if due == '' then heads[flags] = head end
    end
    local definition = definitions[tonumber(ARGV[at + 1])]
    local lane, own = definition.home, definition.own
    if not lane then lane, own = home_defined(definition, tonumber(edition)) end
    lane_counts(lane, own, 1, 1)
    add_pair(records, keys[i],
      head .. string.sub(rest, 1, 16) .. now_bytes .. string.sub(rest, 25, 40) .. lane_bytes(lane) .. string.sub(rest, 49))
    if state == STATE.scheduled then
      add_pair(scheduled, due_at_ms, id)
    else
      lane_add(lane, ARGV[at + 4], id)
      wakes = true
    end
    if ARGV[at + 5] ~= '0' then add_pair(expiring, ARGV[at + 5], id) end
  elseif status[i] == 0 then
    -- A repeat writes what is there already: WAIT on its connection would else confirm a write that never replicated.
    redis.call('SETRANGE', keys[i], 0, string.char(VERSION))
  end
end
if #records > 0 then redis.call('MSET', unpack(records)) end
write_lanes(nil)
add_all(scheduled_key, scheduled)
add_all(expiring_key, expiring)
if wake_channel ~= '' then
  if wakes then redis.call('PUBLISH', wake_channel, 'ready') end
  if #scheduled > 0 then redis.call('PUBLISH', wake_channel, 'due') end
end
return {'ok', now_ms, status, full_gate}
