#!lua
-- Accepts new jobs. A repeat of an accepted job has no effect that a client could see.
-- KEYS scheduled:zset expiring:zset rules:hash
-- ARGV now_ms tag
--   wake_channel(empty: wake nobody)
--   edition
--   push(each: a full backlog refuses only the jobs for which it has no room;
--       whole: a full backlog refuses all jobs;
--       rest: these jobs belong to a push that was accepted as a whole)
--   following(MessagePack: [[number of a lane, number of its jobs in later calls of this push], …])
--   lanes(format: lib/lanes/homes.lua)
--   mark(expected mark of the data; empty: do not check)
--   uniques(format: lib/jobs/unique_requests.lua; empty: no job has a uniqueness key)
--   memberships(format: lib/batches/batch_pushes.lua; empty: no job belongs to a batch)
--   predecessors(format: lib/jobs/predecessor_pushes.lua; empty: no job has predecessors)
--   quota(format: lib/jobs/push_quota.lua; empty: there is none)
--   [+ id
--      terms(the fields priority to expires_at_ms of the record, where a negative expires_at_ms counts from now;
--        then u8 flags, i64 run_at_ms or -1, i64 delay_ms or -1, u16 number of its lane from 1)
--      digest
--      rest_of_record(the fields after the lane)]
-- REPLY ok:
--     now_ms,
--     [index from 0, outcome, reason](of each job that is not newly accepted). Outcomes:
--       `known`: the job was accepted before
--       `taken`: another request took its ID
--       `full`: a backlog is full; the reason is the gate
--       `too_fast`: the quota of this second is used up
--       `expired`: its expires_at has passed
--       `no_batch`: its batch does not exist
--       `batch_over`: its batch takes no new members
--       `no_predecessor`: a predecessor does not exist; the reason is its ID
--       `predecessor_over`: a predecessor has ended in another way than required; the reason is its ID
--       If another job holds its uniqueness key, the reason is the ID of that job, and the outcome is one of these:
--       `existing`: the other job stays as it is
--       `replaced`: the other job took the content of this one
--       `refused`: the request wanted a refusal in this case
--       `offered`: the other job is offered to a worker, so it is unknown whether it can still be replaced
--   | full:gate(whose backlog has no room for a whole push)
--   | too_fast | stale_constraints | other_data
-- CHECKS FIRST that the mark of the data matches;
--   for each job:
--     whether its ID is taken and by which request;
--     whether it has expired;
--     which job holds its uniqueness key;
--     whether its batch takes new members;
--     its predecessors;
--   the backlog of each gate;
--   the quota of this second
-- include lib/lazily.lua
-- include lib/clock.lua
-- include lib/lists.lua
-- include lib/constraints/constraints.lua
-- include lib/jobs/record.lua
-- include lib/constraints/waiting.lua
-- include lib/lanes/lanes.lua
-- include lib/lanes/lane_writes.lua
-- include lib/lanes/homes.lua
-- include lib/lanes/lane_changes.lua
-- include lib/jobs/unique_requests.lua
-- include lib/jobs/unique_pushes.lua
-- include lib/batches/batches.lua
-- include lib/batches/batch_pushes.lua
-- include lib/jobs/dependents.lua
-- include lib/jobs/predecessor_pushes.lua
-- include lib/jobs/followed.lua
-- include lib/jobs/push_quota.lua
local scheduled_key, expiring_key, rules_key = KEYS[1], KEYS[2], KEYS[3]
local now_ms, wake_channel, edition = clock.now_ms(ARGV[1]), ARGV[3], ARGV[4]
local tag = ARGV[2]
local push, following, definitions, mark = ARGV[5], cmsgpack.unpack(ARGV[6]), homes.read(ARGV[7]), ARGV[8]
local uniques, memberships, predecessors, quota = ARGV[9], ARGV[10], ARGV[11], ARGV[12]
local job_prefix = tag .. 'job:'
local FIRST, WIDTH = 13, 4

do
  local held = redis.call('HMGET', rules_key, 'edition', 'mark')
  if mark ~= '' and held[2] ~= mark then return {'other_data'} end
  if (held[1] or '0') ~= edition then return {'stale_constraints'} end
end
local count = (#ARGV - FIRST + 1) / WIDTH
local keys = {}
for i = 1, count do keys[i] = job_prefix .. ARGV[FIRST + (i - 1) * WIDTH] end
local some_taken, requests
if uniques == '' then
  some_taken = redis.call('EXISTS', unpack(keys)) > 0
elseif not unique_requests.read(uniques, now_ms, keys) then
  some_taken, requests = redis.call('EXISTS', unpack(keys)) > 0, unique_pushes.find_holders(now_ms, FIRST, WIDTH)
end
local batch_of = memberships ~= '' and batch_pushes.read(memberships) or nil
local predecessors_of = predecessors ~= '' and predecessor_pushes.read(predecessors) or nil
if quota ~= '' then push_quota.read(quota, now_ms) end

-- By gate: the room in its backlog; nil: its backlog has no limit.
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

local full_gate
local backlogs = {}  -- by lane: its gates whose backlog has a limit; false: none
local function bounding_gates(number)
  if backlogs[number] == nil then
    local list, definition = {}, definitions[number]
    for _, ids in ipairs(push == 'rest' and {} or {definition.base.shared, definition.keyed}) do
      for _, gate_id in ipairs(ids) do
        local limits = constraints.limits_of(gate_id)
        if backlog_room(gate_id) and not limits.is_shadow then list[#list + 1] = gate_id end
      end
    end
    backlogs[number] = list[1] and list or false
  end
  return backlogs[number]
end

-- A cache, because jobs of one push usually have the same terms. Key: the terms. Value: facts that follow from the
-- terms. Among them, `head` is the part of the record before the digest.
local kinds, kinds_seen = {}, {}
local kind_of = (function()
  -- Positions in the terms, which begin with the priority. The creation time is filled in here.
  local CREATED_AT = layout.created_at_ms.at - layout.priority.offset
  local CREATED_LAST = layout.created_at_ms.last - layout.priority.offset
  local TERMS_LENGTH = layout.expires_at_ms.last - layout.priority.offset
  -- A new record has zeros from `started_at_ms` to `worker_id`.
  local now_bytes = struct.pack('>i8', now_ms)
  local nothing_yet = string.rep('\0', layout.worker_id.last - layout.due_at_ms.last)
  return function(terms)
    local kind = kinds[terms]
    if kind then return kind end
    local priority, _, _, _, expires_at_ms, flags, run_at_ms, delay_ms, number =
      struct.unpack('>i4I4i8i8i8Bi8i8I2', terms)
    local due_at_ms = delay_ms > 0 and now_ms + delay_ms or run_at_ms ~= -1 and run_at_ms or 0
    local expiry = string.sub(terms, CREATED_LAST + 1, TERMS_LENGTH)
    if expires_at_ms < 0 then
      expires_at_ms = now_ms - expires_at_ms
      expiry = struct.pack('>i8', expires_at_ms)
    end
    local state = due_at_ms > now_ms and layout.STATE.scheduled or layout.STATE.ready
    kind = {number = number, gates = bounding_gates(number), due_at_ms = due_at_ms,
      is_due = state == layout.STATE.ready, priority = priority, expires_at_ms = expires_at_ms,
      is_past = expires_at_ms > 0 and expires_at_ms <= now_ms,
      accepted = 0, lane = nil, own = nil, lane_bytes = nil,
      head = struct.pack('>BBBBI4I4I2I2i8', layout.VERSION, state, flags, layout.CAUSE.none, 0, 0, 0, 0, due_at_ms)
        .. nothing_yet .. string.sub(terms, 1, CREATED_AT - 1) .. now_bytes
        .. expiry}
    kinds[terms] = kind
    kinds_seen[#kinds_seen + 1] = kind
    return kind
  end
end)()

for _, item in ipairs(following) do
  for _, gate_id in ipairs(bounding_gates(item[1]) or {}) do rooms[gate_id] = rooms[gate_id] - item[2] end
end
-- Outcomes by number of the job. A job without an outcome is new, and is accepted.
local outcomes, told, said, seen, is_new = {}, {}, 0, {}, false
-- These two loops over all jobs take most of the time of a bulk push. A feature may cost at most one comparison for
-- each job that does not use it.
local args = ARGV
for i = 1, count do
  local at = FIRST + (i - 1) * WIDTH
  local key, terms, own_digest = keys[i], args[at + 1], args[at + 2]
  local outcome, reason
  local digest = seen[key]
  if not digest and some_taken and redis.call('EXISTS', key) == 1 then
    digest = redis.pcall('GETRANGE', key, layout.digest.offset, layout.digest.last - 1)
  end
  if digest then
    outcome = digest == own_digest and 'known' or 'taken'
  else
    local kind = kinds[terms] or kind_of(terms)
    local bounding, counted, holder = kind.gates, nil, nil
    is_new = true
    if kind.is_past then
      outcome = 'expired'
    elseif requests and requests[i] then
      holder, outcome = unique_pushes.judge(i)
      reason = holder and holder.id
      if outcome == 'replaced' and holder.head ~= '' then counted = unique_pushes.counted_at(holder.head) end
    end
    if batch_of and batch_of[i] and (not outcome or outcome == 'replaced') and batch_pushes.refusal(batch_of[i]) then
      outcome, reason = batch_pushes.refusal(batch_of[i]), nil
    end
    if predecessors_of and predecessors_of[i] and not outcome then
      outcome, reason = predecessor_pushes.judge(predecessors_of[i], seen, job_prefix)
    end
    if not outcome or outcome == 'replaced' then
      local full
      local too_fast = quota ~= '' and push_quota.refusal()
      if bounding and not too_fast then
        for _, gate_id in ipairs(bounding) do
          if rooms[gate_id] <= 0 and not (counted and counted[gate_id]) then full = gate_id end
        end
      end
      if too_fast then
        outcome, reason = too_fast, nil
      elseif full then
        outcome, reason, full_gate = 'full', full, full
        if quota ~= '' then push_quota.give_back() end
      else
        if bounding then
          for _, gate_id in ipairs(bounding) do
            if not (counted and counted[gate_id]) then rooms[gate_id] = rooms[gate_id] - 1 end
          end
        end
        if not outcome then seen[key] = own_digest end
        if requests and requests[i] then unique_pushes.take(holder, i) end
      end
    end
  end
  if outcome then
    outcomes[i] = outcome
    told[said + 1], told[said + 2], told[said + 3] = i - 1, outcome, reason or ''
    said = said + 3
  end
end
-- If this call has no new job of a whole push, the push was accepted before. Do not refuse it now.
if push == 'whole' and is_new then
  for _, item in ipairs(following) do
    for _, gate_id in ipairs(bounding_gates(item[1]) or {}) do
      if rooms[gate_id] < 0 then full_gate = gate_id end
    end
  end
end
if push == 'whole' and full_gate then return {'full', full_gate} end
if push == 'whole' and quota ~= '' and push_quota.has_refused() then return {'too_fast'} end
if push == 'whole' then
  -- A whole push is refused if one of its jobs has one of these outcomes.
  local REFUSALS = {
    refused = true, offered = true, no_batch = true, batch_over = true, no_predecessor = true, predecessor_over = true,
    expired = true,
  }
  for i = 2, said, 3 do
    if REFUSALS[told[i]] then return {'ok', now_ms, told} end
  end
end

local scheduled, expiring, awaiting, records, filled, wakes = {}, {}, {}, {}, 0, false
local function placed(kind)
  if not kind.lane then
    kind.lane, kind.own = homes.of(definitions, kind.number, tonumber(edition))
    kind.lane_bytes = lanes.bytes_of(kind.lane)
  elseif definitions.conditions then
    homes.note_again(definitions, kind.number)
  end
  return kind
end

-- Gives a stored job the content of job number `holder.from` of this push. The stored job keeps its ID, its age and the
-- digest of its own request. If the stored job is debounced, its wait starts again, but stays within the maximum wait.
local function replace(holder)
  local at = FIRST + (holder.from - 1) * WIDTH
  local id, head, kind = holder.id, holder.head, placed(kinds[ARGV[at + 1]])
  local state, created_at_ms = record.state_of(head), record.int64(head, layout.created_at_ms.at)
  local max_ms, due_at_ms, flags = requests[holder.from].max_ms, kind.due_at_ms, string.byte(kind.head, layout.flags.at)
  if max_ms > 0 then due_at_ms = math.min(due_at_ms, created_at_ms + max_ms) end
  if record.has_flag(record.flags_of(head), layout.FLAG.watched) then flags = flags + layout.FLAG.watched end
  if followed.is_followed(head) and dependents.is_awaited(id) then flags = dependents.awaited_flags(flags) end
  local target = due_at_ms > now_ms and layout.STATE.scheduled or layout.STATE.ready
  local old_lane, old_own = lanes.home_of(head)
  lane_changes.leave(id, state, old_lane, old_own, target, kind.lane)
  lanes.count(kind.lane, kind.own, 1, 1)
  if target == layout.STATE.ready then
    lanes.add(kind.lane, kind.priority, id)
    wakes = true
  else
    lists.add_pair(scheduled, due_at_ms, id)
  end
  followed.replaced(id, job_prefix .. id, head)
  if batch_of and batch_of[holder.from] then batches.join(batch_of[holder.from], id) end
  if kind.expires_at_ms > 0 then lists.add_pair(expiring, kind.expires_at_ms, id)
  elseif record.int64(head, layout.expires_at_ms.at) > 0 then redis.call('ZREM', expiring_key, id) end
  records[filled + 1] = job_prefix .. id
  records[filled + 2] = string.char(layout.VERSION, target, flags, layout.CAUSE.none)
    .. string.sub(head, layout.attempt.at, layout.returned_offers.last) .. struct.pack('>i8', due_at_ms)
    .. string.sub(kind.head, layout.started_at_ms.at, layout.timeout_ms.last)
    .. string.sub(head, layout.created_at_ms.at, layout.created_at_ms.last)
    .. string.sub(kind.head, layout.expires_at_ms.at)
    .. string.sub(head, layout.digest.at, layout.digest.last) .. kind.lane_bytes .. ARGV[at + 3]
  filled = filled + 2
end

for i = 1, count do
  local at = FIRST + (i - 1) * WIDTH
  if not outcomes[i] then
    -- A later job of this push with the same uniqueness key may have replaced this job's content.
    local content = requests and requests[i] and unique_pushes.content_of(i) or i
    local from = FIRST + (content - 1) * WIDTH
    local id, kind = args[at], kinds[args[from + 1]]
    if not kind.lane or definitions.conditions then placed(kind) end
    if batch_of and batch_of[content] then batches.join(batch_of[content], id) end
    kind.accepted = kind.accepted + 1
    records[filled + 1], records[filled + 2] = keys[i], kind.head .. args[at + 2] .. kind.lane_bytes .. args[from + 3]
    filled = filled + 2
    if predecessors_of and predecessors_of[i] and #predecessors_of[i].waits > 0 then
      records[filled] = string.char(layout.VERSION, layout.STATE.awaiting_jobs)
        .. string.sub(records[filled], layout.flags.at)
      lists.add_pair(awaiting, now_ms, id)
    elseif kind.is_due then
      lanes.add(kind.lane, kind.priority, id)
      wakes = true
    else
      lists.add_pair(scheduled, kind.due_at_ms, id)
    end
    if kind.expires_at_ms > 0 then lists.add_pair(expiring, kind.expires_at_ms, id) end
  elseif outcomes[i] == 'known' then
    -- Write again on a repeated call. WAIT covers only writes of its own connection, and the write of the first call
    -- may never have reached the replicas.
    redis.call('SETRANGE', keys[i], layout.digest.offset, ARGV[at + 2])
  end
end
for _, kind in ipairs(kinds_seen) do
  if kind.lane then lanes.count(kind.lane, kind.own, kind.accepted, kind.accepted) end
end
if requests then
  for _, holder in ipairs(unique_pushes.replaced) do replace(holder) end
  unique_pushes.add_writes(records, filled)
elseif uniques ~= '' then
  unique_requests.add_writes(records, filled, outcomes, FIRST, WIDTH)
end
if #records > 0 then redis.call('MSET', unpack(records)) end
lane_writes.write(nil)
lists.zadd(scheduled_key, scheduled)
lists.zadd(expiring_key, expiring)
if #awaiting > 0 then
  lists.zadd(tag .. 'awaiting_jobs', awaiting)
  for i = 1, count do
    if not outcomes[i] and predecessors_of[i] then
      dependents.wait(ARGV[FIRST + (i - 1) * WIDTH], predecessors_of[i].waits, predecessors_of[i].when)
    end
  end
end
if predecessors_of or lazily.is_made(batches) then batches.write(now_ms) end
if quota ~= '' then push_quota.write() end
if wake_channel ~= '' then
  if wakes then redis.call('PUBLISH', wake_channel, 'ready') end
  if #scheduled > 0 then redis.call('PUBLISH', wake_channel, 'due') end
end
return {'ok', now_ms, told}
