#!lua flags=allow-oom
-- Gives ready jobs to a worker: taken, leased, marked and counted in one step. Of all jobs that no gate holds back the smallest priority first, the oldest first within.
-- KEYS epoch:string worker:hash claims:set running:zset fence:string skipped:zset damaged:set rules:hash mail:string
-- ARGV now_ms epoch edition worker_id_bytes limit lease_ms offer_ms grace_ms tag tokens(16 bytes each) finished_channel worker_id mail_channel(empty: its poll hangs at the caller) max_bytes(of records given out, but for the last one) [+ name]
-- REPLY ok:now_ms,busy,first_fence,passed_over(expired or damaged),is_exhausted(1: these names have no more that may start),ms until a gate opens(-1: none closed by time),[id record],[name](of each that had expired) | stale_epoch | stale_rules | gone | no_poll | full:busy
-- CHECKS FIRST epoch, edition of the rules, worker, that one that pulls asks for jobs, free slots, each gate, each record
-- include lib/clock.lua
-- include lib/leadership.lua
-- include lib/record.lua
-- include lib/lists.lua
-- include lib/lanes.lua
-- include lib/mail.lua
local epoch_key, worker_key, claims_key, running_key, fence_key, skipped_key, damaged_key, rules_key, mail_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9]
-- Bounds of one call: jobs and lanes looked at, jobs and lanes put aside.
local MAX_READ, MAX_LANES, MAX_MOVES = 5000, 1000, 1000
local now_ms, epoch, edition, worker_id_bytes, limit = clock.now_ms(ARGV[1]), ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
local lease_ms, offer_ms, grace_ms = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
tag = ARGV[9]
local tokens, finished_channel, worker_id, mail_channel = ARGV[10], ARGV[11], ARGV[12], ARGV[13]
local max_bytes = tonumber(ARGV[14])
local FIRST = 15
local byte, sub, struct_unpack = string.byte, string.sub, struct.unpack
local has_flag, name_of, gates_span, add_pair = record.has_flag, record.name_of, record.gates_span, lists.add_pair
local job_prefix = tag .. 'job:'

if not leadership.holds(epoch_key, epoch) then return {'stale_epoch'} end
local rules = redis.call('HMGET', rules_key, 'edition', 'settled')
if (rules[1] or '0') ~= edition or (rules[2] or '0') ~= edition then return {'stale_rules'} end
local worker = redis.call('HMGET', worker_key, 'max_jobs', 'is_draining', 'is_detached', 'alone_with', 'url', 'poll_until_ms', 'poll_max')
local is_pulling = worker[5] == ''
if not worker[1] or worker[2] == '1' or worker[3] == '1' then return {'gone'} end
if is_pulling and tonumber(worker[6] or 0) <= now_ms then return {'no_poll'} end
local busy = redis.call('SCARD', claims_key)
limit = math.min(limit, tonumber(worker[1]) - busy)
if is_pulling then limit = math.min(limit, tonumber(worker[7])) end
-- One that workers were lost under is to take no other along.
if busy > 0 and worker[4] and redis.call('SISMEMBER', claims_key, worker[4]) == 1 then limit = 0 end
if limit <= 0 then return {'full', busy} end

-- Open lanes, the best last.
local queue = {}
local function comes_before(score, order, item)
  return score < item.score or (score == item.score and order < item.order)
end

local function put_in(item)
  local low, high = 1, #queue + 1
  while low < high do
    local middle = math.floor((low + high) / 2)
    if comes_before(item.score, item.order, queue[middle]) then low = middle + 1 else high = middle end
  end
  table.insert(queue, low, item)
end

local groups, closed_groups, is_asked_for = {}, {}, {}
local lanes_per_group = math.min(limit, MAX_LANES) + 1
local lanes_read, is_cut_short = 0, false
-- Where a fair key was served, all its lanes stand later than they were found: so many more are worth a look.
local MORE_LANES_IF_FAIR = 200
local function has_turns(lane)
  for _, gate_id in ipairs(lane.keyed) do
    local limits = limits_of(string.sub(gate_id, 1, CID_LENGTH))
    if limits and limits.is_fair and not limits.is_shadow then return true end
  end
  return false
end

local function open_lanes(group_id, more)
  local count = math.max(1, math.min(lanes_per_group + more, MAX_LANES - lanes_read))
  return redis.call('ZRANGE', tag .. 'open:' .. group_id, 0, count - 1, 'WITHSCORES')
end

local function put_lane_in(lane)
  local group = groups[lane.group]
  if group then
    put_in({score = lane.score, order = lane.member, lane_id = lane.id, group = group})
  elseif is_asked_for[lane.name] and lane.edition == tonumber(edition) and not closed_groups[lane.group] then
    -- Nothing of its group was open when the groups were read: the next call finds it.
    is_cut_short = true
  end
end

for i = FIRST, #ARGV do
  local name = ARGV[i]
  is_asked_for[name] = true
  for _, group_id in ipairs(redis.call('SMEMBERS', tag .. 'open_groups:' .. name)) do
    local open = open_lanes(group_id, 0)
    local first = open[1] and lane_by_id(string.sub(open[1], -ID_LENGTH))
    if first and #open > lanes_per_group and has_turns(first) then open = open_lanes(group_id, MORE_LANES_IF_FAIR) end
    lanes_read = lanes_read + #open / 2
    if not first or first.edition ~= tonumber(edition) then
      -- Empty, or of older rules: the leader moves its jobs to lanes of these.
      redis.call('SREM', tag .. 'open_groups:' .. name, group_id)
    else
      local closed_by = closed_gate(first.shared, now_ms)
      if closed_by then
        close_group(group_id, name, closed_by)
        closed_groups[group_id] = true
      else
        local group = {id = group_id, name = name, shared = first.shared}
        groups[group_id] = group
        for at = 1, #open, 2 do
          queue[#queue + 1] = {score = tonumber(open[at + 1]), order = open[at], lane_id = string.sub(open[at], -ID_LENGTH), group = group}
        end
        if #open / 2 < redis.call('ZCARD', tag .. 'open:' .. group_id) then
          -- What follows was not read, and may come before anything that follows here.
          queue[#queue + 1] = {score = tonumber(open[#open]), order = open[#open - 1] .. '~', group = group, is_end = true}
        end
      end
    end
  end
end
table.sort(queue, function(a, b) return comes_before(b.score, b.order, a) end)

local jobs_read = 0
-- Priority and ID of the first job of a lane that is not yet taken.
local function first_of(lane, room)
  local ahead, at = lane.ahead, lane.at_job
  if not ahead or (at > #ahead and lane.has_more) then
    -- One more than may start: what comes next says where the lane stands then.
    local wanted = math.min(#queue == 0 and limit or 16, limit, room) + 1
    local from = lane.looked_at or 0
    ahead, at = redis.call('ZRANGE', tag .. 'ready:' .. lane.id, from, from + wanted - 1, 'WITHSCORES'), 1
    lane.ahead, lane.at_job, lane.looked_at, lane.has_more = ahead, at, from + #ahead / 2, #ahead == wanted * 2
    lane.records, lane.keys, lane.first_read_at = {}, {}, at
    jobs_read = jobs_read + #ahead / 2
  end
  return tonumber(ahead[at + 1]), ahead[at]
end

local expired, expired_names, damaged, watched, bytes, count, moves = {}, {}, {}, {}, 0, 0, 0
-- Of each claim: ID and record, as they are given out; the key of its record, and what becomes of its beginning; when its
-- lease or time ends, and ID.
local claimed, claimed_keys, beginnings, running = {}, {}, {}, {}

-- Records of the jobs ahead are read several at once, and many once they have shown to be small: no more than so many
-- large ones are held for nothing.
local FEW, MANY, SMALL = 4, 64, 4096
local at_once = FEW
-- Record and key of the job that stands at `at` in `ahead`.
local function record_of(lane, at)
  local n = (at - lane.first_read_at) / 2 + 1
  local record = lane.records[n]
  if record ~= nil then return record, lane.keys[n] end
  local keys, ahead = {}, lane.ahead
  for next_at = at, math.min(#ahead, at + 2 * math.min(at_once, limit - count)) - 1, 2 do
    keys[#keys + 1] = job_prefix .. ahead[next_at]
  end
  local records = redis.call('MGET', unpack(keys))
  at_once = MANY
  for _, found in ipairs(records) do
    if found and #found > SMALL then at_once = FEW end
  end
  lane.records, lane.keys, lane.first_read_at = records, keys, at
  return records[1], keys[1]
end

local served, shadowed, served_stamp = {}, {}, nil
-- Of what was taken: by lane for its keyed gates, by group for the shared ones, and by gate for those that jobs bring along.
local passing, held_own, begun_own = {}, {}, {}

-- Instants in the form of the IDs with which they are compared; each is later than all before it.
local function next_stamp()
  served_stamp = math.max((served_stamp or tonumber(redis.call('GET', tag .. 'served_stamp') or 0)) + 1, now_ms * 1000)
  local ms = math.floor(served_stamp / 1000)
  return string.format('%08x-%04x-%03d', math.floor(ms / 65536), ms % 65536, served_stamp % 1000)
end

local function room_of(gate_ids)
  local room = NO_ROOM_LIMIT
  for _, gate_id in ipairs(gate_ids) do room = math.min(room, gate_of(gate_id, now_ms).room) end
  return room
end

local function use_room(gate_ids, taken)
  for _, gate_id in ipairs(gate_ids) do
    local gate = gate_of(gate_id, now_ms)
    if gate.is_shadow then
      local delayed = math.min(taken, taken - gate.shadow_room)
      gate.shadow_room = math.max(0, gate.shadow_room - taken)
      if delayed > 0 then shadowed[gate.cid] = (shadowed[gate.cid] or 0) + delayed end
    else
      gate.room, gate.taken = gate.room - taken, gate.taken + taken
    end
  end
end

-- Whose turn is over, for now, among the keys of fair constraints.
local function mark_served(lane)
  local stamp = nil
  for _, gate_id in ipairs(lane.keyed) do
    local gate = gate_of(gate_id, now_ms)
    if gate.is_fair and not gate.is_shadow then
      stamp = stamp or next_stamp()
      gate.served = stamp
      local list = lists.under(served, gate.cid)
      list[#list + 1] = gate_id
      list[#list + 1] = stamp
    end
  end
  return stamp ~= nil
end

-- `owner`: a lane for its keyed gates, a group for the shared ones.
local function passes(gate_ids, owner, id, token_bytes)
  local list = passing[owner]
  if not list then
    list = {gate_ids = gate_ids, holders = {}, begun = {}}
    passing[owner] = list
  end
  add_pair(list.holders, id, token_bytes)
  add_pair(list.begun, now_ms, token_bytes)
end

local function passes_own(gate_ids, id, token_bytes)
  for _, gate_id in ipairs(gate_ids) do
    local gate = gate_of(gate_id, now_ms)
    if gate.tracks_slots then add_pair(lists.under(held_own, gate_id), id, token_bytes) end
    if gate.tracks_starts then add_pair(lists.under(begun_own, gate_id), now_ms, token_bytes) end
  end
end

-- From the base lane to one of its own kind, which lies at the gate that closes it.
local function put_aside(base, own, closed_by, score, id)
  local id_of_lane = lane_id(base.group, own)
  local lane = lane_by_id(id_of_lane)
  if lane.is_lost then
    lane_made(id_of_lane, base.name, base.edition, base.group, base.shared, own)
    lane.at = closed_by.id
  end
  if lane.at ~= '' and not lane.stays then
    local lies_at = gate_of(lane.at, now_ms)
    if lies_at.room <= 0 then
      closes(lies_at, 'L' .. base.group .. base.name)
      lane.stays = true
    end
  end
  redis.call('SETRANGE', job_prefix .. id, layout.lane_id.offset, lane_bytes(lane))
  lane_counts(base, own, -1, -1)
  lane_counts(lane, nil, 1, 1)
  lane_add(lane, score, id)
  moves = moves + 1
end

local take
do
  -- Cut short anywhere before its argument, which is one byte at least.
  local function is_whole(record)
    if #record < layout.name.at + byte(record, layout.name.length_at) then return false end
    local _, extras_at = gates_span(record)
    return #record > extras_at + 3 and #record > extras_at + 3 + struct_unpack('>I4', record, extras_at)
  end

  -- Jobs of one kind have most of their records in common: what follows from that is found out once.
  -- From the length of the name to that of the extras: where the argument begins; false where the job brings gates along.
  local arguments_at = {}
  local function argument_at(bytes)
    local at, gates_at = false, byte(bytes, 1) + 2
    local gates = byte(bytes, gates_at)
    if #bytes == gates_at + 4 and (gates == 0 or gates == layout.gates.in_lane) then
      at = layout.name.length_at + gates_at + 4 + struct_unpack('>I4', bytes, gates_at + 1)
    end
    arguments_at[bytes] = at
    return at
  end

  -- From the version to the returned offers: what stands there from the state to the end of the offer once the job is claimed;
  -- false where it is not ready.
  local as_claimed, times = {}, struct.pack('>i8i8i8i8', 0, now_ms, 0, now_ms + offer_ms)
  local function claimed_beginning(progress)
    local version, state, flags = byte(progress, layout.version.at, layout.flags.at)
    local beginning = false
    if version == layout.VERSION and state == layout.STATE.ready then
      if has_flag(flags, layout.FLAG.confirmed) then flags = flags - layout.FLAG.confirmed end
      local attempt = struct_unpack('>I4', progress, layout.attempt.at) + 1
      beginning = string.char(layout.STATE.running, flags, layout.CAUSE.none) .. struct.pack('>I4', attempt) .. sub(progress, layout.failures.at) .. times
    end
    as_claimed[progress] = beginning
    return beginning
  end

  -- The sooner of lease end and deadline, by timeout: whichever comes first needs the leader's eye.
  local ends = {}
  local function end_of(timeout_ms)
    local end_ms = string.format('%.0f', now_ms + math.min(lease_ms, offer_ms + timeout_ms + grace_ms))
    ends[timeout_ms] = end_ms
    return end_ms
  end

  -- Takes the first job from its lane. Returns whether it is claimed: what expired, is damaged or has to wait is passed over.
  function take(lane, group, score, id)
    local record, key = record_of(lane, lane.at_job)
    lane.at_job = lane.at_job + 2
    lane.taken = lane.taken + 1
    -- False: none is there, or no string.
    local beginning, starts_at = false, nil
    if record and #record >= layout.name.at then
      local progress = sub(record, 1, layout.returned_offers.last)
      beginning = as_claimed[progress]
      if beginning == nil then beginning = claimed_beginning(progress) end
      local kind = sub(record, layout.name.length_at, layout.name.at + byte(record, layout.name.length_at) + 4)
      starts_at = arguments_at[kind]
      if starts_at == nil then starts_at = argument_at(kind) end
    end
    if not beginning or (starts_at and #record < starts_at) or (not starts_at and not is_whole(record)) then
      damaged[#damaged + 1] = id
      local _, own = home_of_damaged(job_prefix .. id)
      lane_counts(lane, own, -1, -1)
      return false
    end
    local keyed = lane.keyed
    local own = not starts_at and #keyed == 0 and own_gates(record) or nil
    local timeout_ms, _, expires_at_ms = struct_unpack('>i8i8i8', record, layout.timeout_ms.at)
    if expires_at_ms > 0 and expires_at_ms <= now_ms then
      expired[#expired + 1] = id
      expired_names[#expired] = name_of(record)
      lane_counts(lane, own, -1, -1)
      if has_flag(byte(record, layout.flags.at), layout.FLAG.watched) then watched[#watched + 1] = id end
      return false
    end
    if own then
      local closed_by = closed_gate(own, now_ms)
      if closed_by then
        put_aside(lane, own, closed_by, score, id)
        return false
      end
      use_room(own, 1)
      lane_counts(lane, own, 0, -1)
    else
      lane.waiting_more = lane.waiting_more - 1
    end
    count = count + 1
    bytes = bytes + #record
    claimed[2 * count - 1], claimed[2 * count] = id, record
    claimed_keys[count], beginnings[count] = key, beginning
    running[2 * count - 1], running[2 * count] = ends[timeout_ms] or end_of(timeout_ms), id
    local shared = group.shared
    if own or shared[1] or keyed[1] then
      local token_bytes = sub(tokens, count * 16 - 15, count * 16)
      if shared[1] then passes(shared, group, id, token_bytes) end
      if own then passes_own(own, id, token_bytes) elseif keyed[1] then passes(keyed, lane, id, token_bytes) end
    end
    return true
  end
end

local function has_time_left()
  return count < limit and bytes <= max_bytes and jobs_read < MAX_READ and moves < MAX_MOVES
end

local function serve(item)
  local group = item.group
  local closed_by = closed_gate(group.shared, now_ms)
  if closed_by then
    close_group(group.id, group.name, closed_by)
    group.is_closed = true
    return
  end
  local lane = lane_by_id(item.lane_id)
  closed_by = closed_gate(lane.keyed, now_ms)
  if closed_by then
    -- What it has given up before counts when it is placed again.
    for _, other in ipairs(park(lane, closed_by)) do put_lane_in(other) end
    moves = moves + 1
    return
  end
  local room = math.min(room_of(group.shared), room_of(lane.keyed))
  local score, id = first_of(lane, room)
  local order = id and order_of(lane, id) .. lane.id
  if id and comes_before(item.score, item.order, {score = score, order = order}) then
    -- Later than it was listed: whom it stands for may come before it.
    for _, other in ipairs(succeeded_by(lane, nil)) do put_lane_in(other) end
    local next_item = queue[#queue]
    if next_item and not comes_before(score, order, next_item) then
      put_in({score = score, order = order, lane_id = lane.id, group = group})
      touched(lane).has_moved = true
      return
    end
  end
  local next_item = queue[#queue]
  touched(lane).has_moved = true
  -- Whom it stands for may come before the job after this one: they come back, and into the queue, after each.
  local has_keys, is_awaited = #lane.keyed > 0, #closed_among(lane.keyed) > 0
  local taken, moved = 0, false
  while id and taken < room and not moved and has_time_left() and (not next_item or comes_before(score, order, next_item)) do
    if take(lane, group, score, id) then
      taken = taken + 1
      moved = has_keys and mark_served(lane) or is_awaited
    end
    score, id = first_of(lane, room - taken)
    if id and next_item then order = order_of(lane, id) .. lane.id end
  end
  use_room(group.shared, taken)
  use_room(lane.keyed, taken)
  lane.first = id and {score, id} or false
  for _, gate_id in ipairs(closed_among(lane.keyed)) do
    if gate_of(gate_id, now_ms).room > 0 then
      for _, other in ipairs(open_gate(gate_id)) do put_lane_in(other) end
    end
  end
  if id then put_in({score = score, order = order_of(lane, id) .. lane.id, lane_id = lane.id, group = group}) end
end

while #queue > 0 and has_time_left() do
  local item = table.remove(queue)
  if not item.group.is_closed then
    if item.is_end then
      is_cut_short = true
      break
    end
    serve(item)
  end
end
local is_exhausted = 0
-- A lane that has more stands in the queue again, also where the limit ended the search.
if #queue == 0 and not is_cut_short and lanes_read < MAX_LANES then is_exhausted = 1 end

for _, id in ipairs(expired) do
  record.set_state(job_prefix .. id, layout.STATE.skipped)
  redis.call('SETRANGE', job_prefix .. id, layout.cause.offset, string.char(layout.CAUSE.expired))
  record.set_int64(job_prefix .. id, layout.finished_at_ms.offset, now_ms)
  redis.call('ZADD', skipped_key, now_ms, id)
end
lists.call('SADD', damaged_key, damaged)
if #watched > 0 then redis.call('PUBLISH', finished_channel, table.concat(watched, ',')) end
local passed_over = #expired + #damaged
local first_fence = 0
if count > 0 then
  first_fence = math.max(tonumber(redis.call('GET', fence_key) or '0') + 1, now_ms)
  redis.call('SET', fence_key, string.format('%.0f', first_fence + count - 1))
  local ids, pieces = {}, {}
  for n = 1, count do
    local token_bytes = sub(tokens, n * 16 - 15, n * 16)
    redis.call('SETRANGE', claimed_keys[n], layout.state.offset, beginnings[n] .. struct.pack('>i8', first_fence + n - 1) .. token_bytes .. worker_id_bytes)
    ids[n] = claimed[2 * n - 1]
    if is_pulling then add_pair(pieces, ids[n], token_bytes) end
  end
  lists.zadd(running_key, running)
  lists.call('SADD', claims_key, ids)
  if is_pulling then mail.give(worker_key, mail_key, pieces, offer_ms, mail_channel, 'mail:' .. worker_id) end
end
for _, list in pairs(passing) do pass_gates(list.gate_ids, list.holders, list.begun, now_ms) end
for gate_id, holders in pairs(held_own) do take_slots(gate_id, holders) end
for gate_id, begun in pairs(begun_own) do note_starts(gate_of(gate_id, now_ms), begun, now_ms) end
for cid, list in pairs(served) do redis.call('HSET', tag .. 'served:' .. cid, unpack(list)) end
if served_stamp then redis.call('SET', tag .. 'served_stamp', string.format('%.0f', served_stamp)) end
for cid, delayed in pairs(shadowed) do redis.call('HINCRBY', tag .. 'shadowed', cid, delayed) end
has_opened = false
write_lanes(nil)
-- What came back only now was not looked at.
if has_opened then is_exhausted = 0 end
return {'ok', now_ms, busy + count, first_fence, passed_over, is_exhausted, next_opening_ms and math.max(0, next_opening_ms - now_ms) or -1, claimed, expired_names}
