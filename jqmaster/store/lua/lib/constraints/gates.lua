-- include lib/lazily.lua
-- include lib/lists.lua
-- include lib/constraints/gate_ids.lua
-- include lib/constraints/constraints.lua
-- include lib/constraints/limit_kinds.lua
-- include lib/constraints/charges.lua
-- include lib/constraints/kept_room.lua
-- Computes the present room at gates, and the time at which a closed gate opens by itself.
local gates = lazily.made_by(function()
  local tag = ARGV.tag
  local NO_ROOM_LIMIT = 2 ^ 53
  -- A gate with unreadable keys is checked again after this delay.
  local DAMAGED_MS = 10000
  local limits_of, constraint_of = constraints.limits_of, gate_ids.constraint_of
  -- By ID: the gates that this call has read.
  local known = {}
  local first_opening_ms = nil

  -- Sets the figures of a gate. Returns whether they could be read.
  local function measure(gate, limits)
    local own
    own, gate.condition = constraints.limits_at(gate.id, limits)
    gate.room, gate.due_ms = limit_kinds.room_of(gate, own, gate.now_ms, NO_ROOM_LIMIT)
    return true
  end

  -- Returns a gate with its figures. `room`: the number of jobs that may start. `due_ms`: when the gate may open by
  -- itself. A gate of a deleted constraint is open. A gate with damaged keys is closed, so that the damage stops only
  -- jobs of this gate.
  local function of(id, now_ms)
    local gate = known[id]
    if gate then return gate end
    local limits = limits_of(id)
    if not limits then
      gate = {id = id, cid = constraint_of(id), room = NO_ROOM_LIMIT, now_ms = now_ms, taken = 0}
      known[id] = gate
      return gate
    end
    -- Set all fields at once, because growing the table would reallocate it several times per gate.
    gate = {id = id, cid = constraint_of(id), room = NO_ROOM_LIMIT, now_ms = now_ms, tracks_slots = limits.tracks_slots,
      tracks_starts = limits.tracks_starts, is_fair = limits.is_fair, is_shadow = limits.is_shadow, is_paused = false,
      taken = 0, running = nil, concurrency = nil, period_ms = nil, weight_default = limits.weight_default}
    known[id] = gate
    if not lists.alone(measure, gate, limits) then
      gate.is_damaged, gate.room, gate.due_ms = true, 0, now_ms + DAMAGED_MS
    end
    if limits.is_shadow then gate.shadow_room, gate.room, gate.due_ms = gate.room, NO_ROOM_LIMIT, nil end
    return gate
  end

  -- Returns the first closed gate among these; nil: all are open.
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

  -- Records that jobs wait for this gate. Schedules the leader's check for the time at which the gate may open.
  local function await(gate)
    -- Compute the time again if jobs that this call started have used up room, or if the next job needs more room than
    -- there is.
    if gate.taken > 0 or gate.needed or gate.kept then gate.due_ms = limit_kinds.opening_of(gate) end
    local due_ms = gate.due_ms
    if gate.has_more_expired then
      charges.forget_expired()
      due_ms = gate.now_ms
    end
    if gate.kept then
      local check_ms = kept_room.check_at(gate.kept, gate.now_ms)
      due_ms = math.min(due_ms or check_ms, check_ms)
    end
    if due_ms then
      redis.call('ZADD', tag .. 'gates_due', due_ms, gate.id)
      first_opening_ms = math.min(first_opening_ms or due_ms, due_ms)
    end
  end

  -- Returns in how many milliseconds the first gate opens by itself; -1: none does. Takes into account the gates for
  -- which this call has found waiting jobs.
  local function ms_until_opening(now_ms)
    return first_opening_ms and math.max(0, first_opening_ms - now_ms) or -1
  end

  -- Closes this gate until `until_ms`. Does nothing if a longer hold exists.
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
