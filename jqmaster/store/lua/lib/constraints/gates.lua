-- include lib/lazily.lua
-- include lib/constraints/gate_ids.lua
-- include lib/constraints/constraints.lua
-- include lib/constraints/limit_kinds.lua
-- The room at gates now, and when a closed gate opens by itself.
local gates = lazily.made_by(function()
  local tag = ARGV.tag
  local NO_ROOM_LIMIT = 2 ^ 53
  local limits_of, constraint_of = constraints.limits_of, gate_ids.constraint_of
  -- By ID, those that this script has asked.
  local known = {}
  local first_opening_ms = nil

  -- `room` is the number of starts that fit; `due_ms` is when the gate may open by time alone. A gate whose constraint
  -- is gone is open.
  local function of(id, now_ms)
    local gate = known[id]
    if gate then return gate end
    local limits = limits_of(id)
    if not limits then
      gate = {id = id, cid = constraint_of(id), room = NO_ROOM_LIMIT, now_ms = now_ms, taken = 0}
      known[id] = gate
      return gate
    end
    -- All fields at once: a table that grows is made anew several times, for each of hundreds of gates.
    gate = {id = id, cid = constraint_of(id), room = NO_ROOM_LIMIT, now_ms = now_ms, tracks_slots = limits.tracks_slots,
      tracks_starts = limits.tracks_starts, is_fair = limits.is_fair, is_shadow = limits.is_shadow, is_paused = false,
      taken = 0, running = nil, concurrency = nil, period_ms = nil}
    known[id] = gate
    local room
    room, gate.due_ms = limit_kinds.room_of(gate, constraints.limits_at(id, limits), now_ms, NO_ROOM_LIMIT)
    if limits.is_shadow then gate.shadow_room, gate.due_ms = room, nil else gate.room = room end
    return gate
  end

  -- The first of these that is closed; nil where all are open.
  local function first_closed(ids, now_ms)
    for _, id in ipairs(ids) do
      local gate = of(id, now_ms)
      if gate.room <= 0 then return gate end
    end
    return nil
  end

  local function room_at(ids, now_ms)
    local room = NO_ROOM_LIMIT
    for _, id in ipairs(ids) do room = math.min(room, of(id, now_ms).room) end
    return room
  end

  -- Something waits for this gate: the leader must hear when it opens by time.
  local function await(gate)
    -- The starts of this script took the room.
    if gate.taken > 0 then gate.due_ms = limit_kinds.opening_of(gate) end
    if gate.due_ms then
      redis.call('ZADD', tag .. 'gates_due', gate.due_ms, gate.id)
      first_opening_ms = math.min(first_opening_ms or gate.due_ms, gate.due_ms)
    end
  end

  -- Returns the ms until the first awaited gate opens; -1 if none opens by time.
  local function ms_until_opening(now_ms)
    return first_opening_ms and math.max(0, first_opening_ms - now_ms) or -1
  end

  -- Nothing passes this gate before `until_ms`; a longer hold stays.
  local function hold(id, until_ms)
    local held_ms = tonumber(redis.call('HGET', tag .. 'holds', id) or 0)
    if until_ms > held_ms then
      redis.call('HSET', tag .. 'holds', id, string.format('%.0f', until_ms))
      redis.call('ZADD', tag .. 'gates_due', until_ms, id)
    end
  end

  return {
    NO_ROOM_LIMIT = NO_ROOM_LIMIT, known = known, of = of, first_closed = first_closed, room_at = room_at,
    await = await, ms_until_opening = ms_until_opening, hold = hold,
  }
end)
