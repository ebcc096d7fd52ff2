-- include lib/lazily.lua
-- include lib/constraints/slots.lua
-- include lib/constraints/charges.lua
-- include lib/constraints/weighing.lua
-- The kinds of limits that close gates. Each kind is one table with the functions below.
-- jqmaster/domain/constraints/limit_kinds.py has the same kinds for documents, checks and texts, and defines the fields
-- of constraints and overrides.
--
--   room(gate, limits, now_ms)   returns how many jobs may start, and the time at which the gate opens by itself
--                                (NEVER: an operator has to open it); nil if the constraint has no such limit. Sets the
--                                figures of the gate.
--   opens_at(gate)               optional: returns the time at which the gate opens after `gate.taken` more starts
--   on_start(gate, begun, now_ms)   optional: remembers starts; `begun` alternates start times and tokens
local limit_kinds = lazily.made_by(function()
  local tag = ARGV.tag
  local NEVER = math.huge

  local concurrency = {
    room = function(gate, limits)
      local most = limits.concurrency
      if not most or gate.weight_default then return nil end
      gate.running, gate.concurrency = slots.used(gate.id), most
      return most - gate.running
    end,
  }

  local MAX_REMEMBERED, REMEMBERED_MS = 1000, 60000  -- limits for starts that are remembered for longer than a period

  -- Returns how long a gate remembers its starts. This is usually REMEMBERED_MS, but at most the time of MAX_REMEMBERED
  -- starts, and at least one period. If somebody makes the period longer, earlier starts then still count.
  local function remembered_ms(gate)
    if not gate.rate_limit then return REMEMBERED_MS end
    local whole_periods_ms = gate.period_ms * math.floor(MAX_REMEMBERED / gate.rate_limit)
    return math.max(gate.period_ms, math.min(REMEMBERED_MS, whole_periods_ms))
  end

  -- Returns when another job may start. `excess`: the number of starts within the period, minus the limit.
  local function opening_after(gate, excess)
    local oldest = redis.call('ZRANGEBYSCORE', tag .. 'starts:' .. gate.id, gate.now_ms - gate.period_ms, '+inf',
      'WITHSCORES', 'LIMIT', excess, 1)
    return tonumber(oldest[2]) + gate.period_ms + 1
  end

  local rate = {
    room = function(gate, limits, now_ms)
      local most, period_ms = limits.rate_limit, limits.rate_period_ms
      if not most or gate.weight_default then return nil end
      -- Count a start through the whole millisecond in which its period ends. If the timestamps of two starts differ by
      -- exactly a period, the starts may really be closer together.
      local starts = redis.call('ZCOUNT', tag .. 'starts:' .. gate.id, now_ms - period_ms, '+inf')
      gate.starts, gate.rate_limit, gate.period_ms = starts, most, period_ms
      return most - starts, starts >= most and opening_after(gate, starts - most) or nil
    end,
    opens_at = function(gate)
      if not gate.rate_limit then return nil end
      local excess = gate.starts + gate.taken - gate.rate_limit
      if excess < 0 then return nil end
      -- All starts of this call happen now.
      return excess < gate.starts and opening_after(gate, excess) or gate.now_ms + gate.period_ms + 1
    end,
    on_start = function(gate, begun, now_ms)
      if not gate.tracks_starts or gate.weight_default then return end
      local key, kept_ms = tag .. 'starts:' .. gate.id, remembered_ms(gate)
      redis.call('ZREMRANGEBYSCORE', key, '-inf', '(' .. string.format('%.0f', now_ms - kept_ms))
      redis.call('ZADD', key, unpack(begun))
      -- If this key value has no rate limit but other key values have one, nothing else limits the number of starts.
      if not gate.rate_limit then redis.call('ZREMRANGEBYRANK', key, 0, -MAX_REMEMBERED - 1) end
      -- Let the list expire. Starts that are older than this no longer matter, even if a clock was changed.
      redis.call('PEXPIRE', key, kept_ms + 1000)
    end,
  }

  -- The limits of a constraint with a weight, which count units instead of jobs.
  local units = {
    room = function(gate, limits)
      if not gate.weight_default then return nil end
      return weighing.room(gate, limits)
    end,
    opens_at = function(gate) return gate.weight_default and weighing.opens_at(gate) end,
  }

  -- Checks once per call whether workers have requested holds or reported observations. If there are none, this costs
  -- one command.
  local has_holds, has_observed = nil, nil
  local function look_for_wishes()
    local count = redis.call('EXISTS', tag .. 'holds', tag .. 'observed')
    has_observed = count > 0 and redis.call('EXISTS', tag .. 'observed') == 1
    has_holds = count == 2 or count == 1 and not has_observed
  end

  -- A hold is a worker's request to keep the gate closed for some time. It is not part of a constraint.
  local hold = {
    room = function(gate, _, now_ms)
      if has_holds == nil then look_for_wishes() end
      if not has_holds then return nil end
      local until_ms = tonumber(redis.call('HGET', tag .. 'holds', gate.id) or 0)
      if until_ms <= now_ms then return nil end
      gate.held_until_ms = until_ms
      return 0, until_ms
    end,
    opens_at = function(gate) return gate.held_until_ms end,
  }

  -- An observation tells how much another system still admits until an instant. That system gives the number, in
  -- thousandths of the gate's unit. A gate without a weight counts jobs. An observation is not part of a constraint.
  local observation = {
    room = function(gate, _, now_ms)
      if has_observed == nil then look_for_wishes() end
      if not has_observed then return nil end
      local stored = redis.call('HGET', tag .. 'observed', gate.id)
      local left, until_ms, _, times = charges.read_observed(stored)
      if not left or until_ms <= now_ms then return nil end
      gate.observed_left, gate.observed_until_ms, gate.observed_times = left, until_ms, times
      if gate.weight_default then return nil end
      local room = math.floor(gate.observed_left / 1000)
      return room, room <= 0 and gate.observed_until_ms or nil
    end,
    opens_at = function(gate)
      if not gate.observed_left or gate.weight_default then return nil end
      return math.floor(gate.observed_left / 1000) <= gate.taken and gate.observed_until_ms or nil
    end,
    on_start = function(gate, begun, now_ms)
      -- Skip a running job that is only being matched to the constraints again, because it started earlier.
      if not gate.observed_left or begun[1] ~= now_ms then return end
      -- At a gate without a weight, count jobs. Elsewhere, `weighing.use` has counted the units. Add to the count,
      -- because jobs of several groups may start at one gate in one call.
      gate.observed_starts = (gate.observed_starts or 0) + #begun / 2
      local left = gate.observed_left - (gate.weight_default and 0 or 1000 * gate.observed_starts)
      redis.call('HSET', tag .. 'observed', gate.id, string.format('%.0f', left) .. gate.observed_times)
    end,
  }

  local pause = {
    room = function(gate, limits)
      gate.is_paused = limits.is_paused
      if limits.is_paused then return 0, NEVER end
      return nil
    end,
    opens_at = function(gate) return gate.is_paused and NEVER or nil end,
  }

  -- `observation` stands before `units`, which takes it into account.
  local all, with_start = {concurrency, rate, hold, observation, units, pause}, {rate, observation}

  -- Returns the room that all kinds together leave, and the time at which the gate opens by itself; nil: only an event
  -- can open it.
  local function room_of(gate, limits, now_ms, room)
    local due_ms = nil
    for n = 1, #all do
      local own_room, own_due_ms = all[n].room(gate, limits, now_ms)
      if own_room and own_room < room then room = own_room end
      if own_due_ms and own_due_ms > (due_ms or 0) then due_ms = own_due_ms end
    end
    return room, due_ms ~= NEVER and due_ms or nil
  end

  -- Returns the time at which the gate opens by itself, after the starts of this call.
  local function opening_of(gate)
    local due_ms = nil
    for n = 1, #all do
      local opens_at = all[n].opens_at
      local own_due_ms = opens_at and opens_at(gate)
      if own_due_ms and own_due_ms > (due_ms or 0) then due_ms = own_due_ms end
    end
    return due_ms ~= NEVER and due_ms or nil
  end

  local function on_start(gate, begun, now_ms)
    for n = 1, #with_start do with_start[n].on_start(gate, begun, now_ms) end
  end

  return {room_of = room_of, opening_of = opening_of, on_start = on_start}
end)
