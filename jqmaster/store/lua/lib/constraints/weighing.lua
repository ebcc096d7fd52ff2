-- include lib/lazily.lua
-- include lib/constraints/charges.lua
-- include lib/constraints/kept_room.lua
-- Room at gates whose constraint has a weight. All numbers are thousandths of the constraint's unit.
local weighing = lazily.made_by(function()
  local tag = ARGV.tag
  local UNIT = 1000
  -- Maximum number of starts that are read to find the time at which there will be room.
  local MAX_WALKED = 1000

  -- Returns whether a job of this weight may start. A job that is heavier than a limit needs the whole limit. Each job
  -- of a claim runs this, so it has two comparisons, which are faster than `math.min`.
  local function fits(gate, weight)
    local running, window, observed = gate.running_left, gate.window_left, gate.observed_left
    return (not running or weight <= running or gate.running_most <= running)
      and (not window or weight <= window or gate.window_most <= window)
      and (not observed or weight <= observed)
  end

  -- Returns whether the gate keeps room for another job and therefore has too little left for this job. `place`: see
  -- `kept_room.is_first`.
  local function holds_back(gate, weight, place)
    local note = gate.kept
    if not note or kept_room.is_first(note, place) then return false end
    local running, window, observed = gate.running_left, gate.window_left, gate.observed_left
    local function lacks(left, most) return math.min(weight, most) + math.min(note.need, most) > left end
    return running and lacks(running, gate.running_most) or window and lacks(window, gate.window_most)
      or observed and lacks(observed, math.huge) or false
  end

  -- Returns when the window will have room for `lacking` more thousandths. If this is not known, returns when to check
  -- again.
  local function opening_after(gate, lacking)
    if gate.has_more_expired then return gate.now_ms end
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

  -- Returns the minimum room that the next job needs.
  local function need_of(gate)
    return math.max(1, gate.needed or gate.kept and gate.kept.need or 1)
  end

  -- Returns when a gate opens by itself for the job that waits for it.
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

  -- Implements `room` of the limit kind for units: see limit_kinds.lua.
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
      note = kept_room.stored(gate.id)
    end
    gate.kept = kept_room.of(note, gate.now_ms)
    if fits(gate, 1) then return nil end
    return 0, opens_at(gate)
  end

  -- Returns whether the gate keeps room for a job and is therefore closed to all later jobs.
  local LAST = {id = '', score = math.huge, order = ''}
  local function is_kept_closed(gate)
    return not gate.is_shadow and holds_back(gate, 1, LAST)
  end

  -- Uses up room for a job that starts.
  local function use(gate, weight)
    local running, window, observed = gate.running_left, gate.window_left, gate.observed_left
    if running then
      running = running - weight
      gate.running_left = running
    end
    if window then
      window = window - weight
      gate.window_left = window
    end
    if observed then
      observed = observed - weight
      gate.observed_left = observed
    end
    gate.taken, gate.last_weight = gate.taken + 1, weight
    -- Usually, every limit still has room after a job has started. So call `fits`, which costs more, only if one of
    -- these values is below 1.
    local may_be_used_up = running and running < 1 or window and window < 1 or observed and observed < 1
    if may_be_used_up and not gate.is_shadow and not fits(gate, 1) then gate.room = 0 end
  end

  -- Keeps room for a job that cannot start. Does nothing if the gate already keeps room for an earlier job.
  local function keep_for(gate, weight, place)
    if not gate.kept or kept_room.is_first(gate.kept, place) then
      gate.kept = kept_room.keep(gate.id, gate.kept, math.max(1, weight), place, gate.now_ms)
    elseif fits(gate, gate.kept.need) then
      kept_room.fits_now(gate.id, gate.kept, gate.now_ms)
    end
  end

  -- Called when the next job does not fit. Keeps room for it, and closes the gate for the rest of this call, so that
  -- later jobs do not start first.
  local function close_for(gate, weight, place)
    keep_for(gate, weight, place)
    gate.room, gate.needed, gate.is_asked = 0, gate.kept.id == place.id and gate.kept.need or nil, true
  end

  -- Returns how many jobs of the default weight may start at an open gate. This is at least one.
  local function usual_room(gate)
    local left = math.min(gate.running_left or math.huge, gate.window_left or math.huge,
      gate.observed_left or math.huge)
    if gate.weight_default <= 0 or left == math.huge then return gate.room end
    return math.max(1, math.floor(left / gate.weight_default))
  end

  return {
    fits = fits, holds_back = holds_back, is_kept_closed = is_kept_closed, opens_at = opens_at, room = room, use = use,
    keep_for = keep_for, close_for = close_for, usual_room = usual_room,
  }
end)
