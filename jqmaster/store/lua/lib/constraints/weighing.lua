-- include lib/lazily.lua
-- include lib/constraints/charges.lua
-- Room at gates whose constraint has a weight. All numbers are thousandths of its unit.
local weighing = lazily.made_by(function()
  local tag = ARGV.tag
  local UNIT = 1000
  -- How long a gate stays closed to lighter jobs for a job that needs more room than there is, unless that job is
  -- checked again; and how many starts are read to find out when there is room.
  local NOTE_MS, MAX_WALKED = 60000, 1000

  -- Returns whether a job of this weight may start. A job that is heavier than a limit needs the whole limit.
  local function fits(gate, weight)
    local running, window, observed = gate.running_left, gate.window_left, gate.observed_left
    return (not running or math.min(weight, gate.running_most) <= running)
      and (not window or math.min(weight, gate.window_most) <= window)
      and (not observed or weight <= observed)
  end

  -- Returns when the window has `lacking` thousandths more room, or at least when to check again.
  local function opening_after(gate, lacking)
    local freed = 0
    local starts = redis.call('ZRANGEBYSCORE', tag .. 'starts:' .. gate.id,
      string.format('%.0f', gate.now_ms - gate.period_ms), '+inf', 'WITHSCORES', 'LIMIT', 0, MAX_WALKED)
    for at = 1, #starts, 2 do
      freed = freed + charges.charge_of(starts[at])
      if freed >= lacking or at == 2 * MAX_WALKED - 1 then return tonumber(starts[at + 1]) + gate.period_ms + 1 end
    end
    -- The starts of this call happen now.
    return gate.now_ms + gate.period_ms + 1
  end

  -- Returns the room that the next job needs at least.
  local function need_of(gate)
    return math.max(1, gate.needed or gate.noted or 1)
  end

  -- Returns when a gate opens without an event for the job that waits for it.
  local function opens_at(gate)
    local need, due_ms = need_of(gate), nil
    if gate.window_left then
      local lacking = math.min(need, gate.window_most) - gate.window_left
      if lacking > 0 then due_ms = opening_after(gate, lacking) end
    end
    if gate.observed_left and need > gate.observed_left then
      due_ms = math.max(due_ms or 0, gate.observed_until_ms)
    end
    return due_ms
  end

  -- Does what the function of that name does in the kinds of limits.
  local function room(gate, limits)
    local note
    if limits.concurrency then
      gate.running_most = limits.concurrency * UNIT
      gate.running_left = gate.running_most - charges.running_at(gate.id)
    end
    if limits.rate_limit then
      gate.window_most, gate.period_ms = limits.rate_limit * UNIT, limits.rate_period_ms
      local sum
      sum, note = charges.within_period(gate)
      gate.window_left = gate.window_most - sum
    else
      note = redis.call('GET', tag .. 'needed:' .. gate.id)
    end
    gate.noted = tonumber(note or nil)
    if fits(gate, need_of(gate)) then return nil end
    return 0, opens_at(gate)
  end

  -- Uses up room for a job that starts.
  local function use(gate, weight)
    if gate.running_left then gate.running_left = gate.running_left - weight end
    if gate.window_left then gate.window_left = gate.window_left - weight end
    if gate.observed_left then gate.observed_left = gate.observed_left - weight end
    gate.taken = gate.taken + 1
    if not gate.is_shadow and not fits(gate, 1) then gate.room = 0 end
  end

  -- Closes a gate for the rest of this call, because the next job does not fit.
  local function close_for(gate, weight)
    gate.room, gate.needed = 0, math.max(1, weight)
  end

  -- Keeps the gate closed to lighter jobs until the one that waits for it has room. Otherwise they could start before
  -- it for ever.
  local function note(gate)
    redis.call('SET', tag .. 'needed:' .. gate.id, string.format('%.0f', gate.needed), 'PX', NOTE_MS)
  end

  -- Returns how many jobs of the default weight may start at an open gate: at least one.
  local function usual_room(gate)
    local left = math.min(gate.running_left or math.huge, gate.window_left or math.huge,
      gate.observed_left or math.huge)
    if gate.weight_default <= 0 or left == math.huge then return gate.room end
    return math.max(1, math.floor(left / gate.weight_default))
  end

  return {
    fits = fits, opens_at = opens_at, room = room, use = use, close_for = close_for, note = note,
    usual_room = usual_room,
  }
end)
