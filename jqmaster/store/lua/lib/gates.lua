-- include lib/gate_ids.lua
-- include lib/constraints.lua
-- include lib/slots.lua
-- What gates let through now, and when a closed one opens by itself.
local gates = (function()
  local tag = ARGV.tag
  local NO_ROOM_LIMIT = 2 ^ 53
  local limits_of, constraint_of = constraints.limits_of, gate_ids.constraint_of
  -- By ID, those that this script has asked.
  local known = {}
  local has_holds = nil
  local first_opening_ms = nil

  local function overridden(gate, limits)
    local concurrency, rate_limit, period_ms = limits.concurrency, limits.rate_limit, limits.rate_period_ms
    local override = redis.call('HGET', tag .. 'overrides:' .. gate.cid, gate.id)
    if not override then return concurrency, rate_limit, period_ms, limits.is_paused end
    local c, r, p, z = string.match(override, '^(%d*),(%d*),(%d*),([01])$')
    return tonumber(c) or concurrency, tonumber(r) or rate_limit, tonumber(p) or period_ms, limits.is_paused or z == '1'
  end

  -- `room` is for so many starts; `due_ms` is when it may open by time alone. A gate whose constraint is gone is open.
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
    local concurrency, rate_limit, period_ms, is_paused = limits.concurrency, limits.rate_limit, limits.rate_period_ms,
      limits.is_paused
    if limits.has_overrides then concurrency, rate_limit, period_ms, is_paused = overridden(gate, limits) end
    gate.period_ms = period_ms
    local room = NO_ROOM_LIMIT
    if concurrency then
      gate.running, gate.concurrency = slots.used(id), concurrency
      room = concurrency - gate.running
    end
    if rate_limit then
      -- A start counts through the whole millisecond in which its period ends: two starts that a clock of milliseconds
      -- shows one period apart may be closer.
      local since, starts_key = now_ms - period_ms, tag .. 'starts:' .. id
      gate.starts, gate.rate_limit = redis.call('ZCOUNT', starts_key, since, '+inf'), rate_limit
      if gate.starts >= rate_limit then
        local oldest = redis.call('ZRANGEBYSCORE', starts_key, since, '+inf', 'WITHSCORES', 'LIMIT',
          gate.starts - rate_limit, 1)
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

  -- What this script let through took the room: by time, it comes back when the start ends its period that is too many.
  local function reckon_due(gate)
    local starts = gate.starts + gate.taken
    if gate.is_paused or starts < gate.rate_limit then return end
    local oldest_ms = gate.now_ms
    if starts - gate.rate_limit < gate.starts then
      local oldest = redis.call('ZRANGEBYSCORE', tag .. 'starts:' .. gate.id, gate.now_ms - gate.period_ms, '+inf',
        'WITHSCORES', 'LIMIT', starts - gate.rate_limit, 1)
      oldest_ms = tonumber(oldest[2])
    end
    gate.due_ms = math.max(gate.held_until_ms or 0, oldest_ms + gate.period_ms + 1)
  end

  -- Something waits for this gate: the leader must hear when it opens by time.
  local function await(gate)
    if gate.taken > 0 and gate.rate_limit then reckon_due(gate) end
    if gate.due_ms then
      redis.call('ZADD', tag .. 'gates_due', gate.due_ms, gate.id)
      first_opening_ms = math.min(first_opening_ms or gate.due_ms, gate.due_ms)
    end
  end

  -- Until the first of those opens that something waits for; -1 where none opens by time.
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
end)()
