-- include lib/constraints/constraints.lua
-- include lib/constraints/waiting.lua
-- include lib/lists.lua
-- include lib/lanes/lanes.lua
-- include lib/lanes/homes.lua
-- Creates jobs for definitions. Checks the backlogs of their constraints, and writes their records and indexes. For
-- pushes, jobs/enqueue/enqueue.lua does this work itself, because so many function calls would cost too much there.
local new_jobs = (function()
  local tag, edition = ARGV.tag, ARGV.edition
  local job_prefix = tag .. 'job:'
  local unpack_terms, sub = struct.unpack, string.sub
  local definitions = homes.read(ARGV.lanes)

  -- By gate: the room in its backlog; false: the backlog has no limit.
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

  -- Returns those gates of lane `number` whose backlogs have a limit.
  local backlogs = {}
  local function bounding_gates(number)
    if not backlogs[number] then
      local list, definition = {}, definitions[number]
      for _, ids in ipairs({definition.base.shared, definition.keyed}) do
        for _, gate_id in ipairs(ids) do
          local limits = constraints.limits_of(gate_id)
          if backlog_room(gate_id) and not limits.is_shadow then list[#list + 1] = gate_id end
        end
      end
      backlogs[number] = list
    end
    return backlogs[number]
  end

  -- Returns the gates at which the job with this head is counted, as a set. A job that replaces this job needs no room
  -- there.
  local function counted_at(head)
    local found, lane, own = {}, lanes.home_of(head)
    for _, list in ipairs({lane.shared, lane.keyed, own or {}}) do
      for _, gate_id in ipairs(list) do found[gate_id] = true end
    end
    return found
  end

  -- Takes room for one job at all of its gates, or at none. `counted`: gates at which the job needs no room. Returns a
  -- gate without room; nil: the room was taken.
  local function take_place(number, counted)
    local full_gate
    local bounding = bounding_gates(number)
    for _, gate_id in ipairs(bounding) do
      if rooms[gate_id] <= 0 and not counted[gate_id] then full_gate = gate_id end
    end
    if not full_gate then
      for _, gate_id in ipairs(bounding) do
        if not counted[gate_id] then rooms[gate_id] = rooms[gate_id] - 1 end
      end
    end
    return full_gate
  end

  -- A cache, because all jobs of a definition have the same terms. Key: the terms. Value: facts that follow from the
  -- terms. Among them, `head` is the part of the record before the digest.
  local kinds, kinds_seen = {}, {}
  -- Positions in the terms, which begin with the priority. The creation time is filled in here.
  local CREATED_AT = layout.created_at_ms.at - layout.priority.offset
  local CREATED_LAST = layout.created_at_ms.last - layout.priority.offset
  local TERMS_LENGTH = layout.expires_at_ms.last - layout.priority.offset
  -- A new record has zeros from `started_at_ms` to `worker_id`.
  local nothing_yet = string.rep('\0', layout.worker_id.last - layout.due_at_ms.last)
  local function kind_of(terms, now_ms)
    local kind = kinds[terms]
    if kind then return kind end
    local priority, _, _, _, expires_at_ms, flags, run_at_ms, delay_ms, number =
      unpack_terms('>i4I4i8i8i8Bi8i8I2', terms)
    local due_at_ms = delay_ms > 0 and now_ms + delay_ms or run_at_ms ~= -1 and run_at_ms or 0
    local expiry = sub(terms, CREATED_LAST + 1, TERMS_LENGTH)
    if expires_at_ms < 0 then
      expires_at_ms = now_ms - expires_at_ms
      expiry = struct.pack('>i8', expires_at_ms)
    end
    local state = due_at_ms > now_ms and layout.STATE.scheduled or layout.STATE.ready
    kind = {number = number, due_at_ms = due_at_ms,
      is_due = state == layout.STATE.ready, priority = priority, expires_at_ms = expires_at_ms,
      accepted = 0, lane = nil, own = nil, lane_bytes = nil,
      head = struct.pack('>BBBBI4I4I2I2i8', layout.VERSION, state, flags, layout.CAUSE.none, 0, 0, 0, 0, due_at_ms)
        .. nothing_yet .. sub(terms, 1, CREATED_AT - 1) .. struct.pack('>i8', now_ms)
        .. expiry}
    kinds[terms] = kind
    kinds_seen[#kinds_seen + 1] = kind
    return kind
  end

  local scheduled, expiring, records, filled, wakes = {}, {}, {}, 0, false
  -- Notes a new job, which `write` writes. Its ID must be free. `rest`: the fields of its record after the lane.
  local function add(id, kind, digest, rest)
    if not kind.lane then
      kind.lane, kind.own = homes.of(definitions, kind.number, tonumber(edition))
      kind.lane_bytes = lanes.bytes_of(kind.lane)
    elseif definitions.conditions then
      homes.note_again(definitions, kind.number)
    end
    kind.accepted = kind.accepted + 1
    records[filled + 1], records[filled + 2] = job_prefix .. id, kind.head .. digest .. kind.lane_bytes .. rest
    filled = filled + 2
    if kind.is_due then
      lanes.add(kind.lane, kind.priority, id)
      wakes = true
    else
      lists.add_pair(scheduled, kind.due_at_ms, id)
    end
    if kind.expires_at_ms > 0 then lists.add_pair(expiring, kind.expires_at_ms, id) end
  end

  -- Writes the noted jobs. The caller writes the lanes afterwards with lib/lanes/lane_writes.lua.
  local function write(scheduled_key, expiring_key)
    for _, kind in ipairs(kinds_seen) do
      if kind.lane then lanes.count(kind.lane, kind.own, kind.accepted, kind.accepted) end
    end
    if #records > 0 then redis.call('MSET', unpack(records)) end
    lists.zadd(scheduled_key, scheduled)
    lists.zadd(expiring_key, expiring)
  end

  -- Wakes the leader if there are ready or scheduled jobs.
  local function tell(wake_channel)
    if wake_channel == '' then return end
    if wakes then redis.call('PUBLISH', wake_channel, 'ready') end
    if #scheduled > 0 then redis.call('PUBLISH', wake_channel, 'due') end
  end

  return {
    counted_at = counted_at, take_place = take_place, kind_of = kind_of, add = add, write = write, tell = tell,
  }
end)()
