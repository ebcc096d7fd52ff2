-- include lib/lazily.lua
-- include lib/constraints/gate_ids.lua
-- include lib/constraints/constraints.lua
-- Turns in proportion to shares, by a virtual clock for each constraint (start-time fair queueing).
--
-- After a value is served, its next turn is later by STEP divided by its share. If the constraint counts units, a job
-- that is twice as heavy as the average takes two turns. The clock shows the turn that was served last. If a value was
-- idle, its next turn is at the present time of the clock. Being idle is then neither an advantage nor a disadvantage.
--
-- A turn is a text that sorts like the IDs of jobs: an anchor, then the time on the virtual clock. An anchor is an
-- instant in the form of an ID. A round is the time in which the value with the smallest share has one turn. Each round
-- begins with a new anchor. At that moment, lanes that take no turns go first if their jobs are older than the anchor.
local turn_clock = lazily.made_by(function()
  local tag = ARGV.tag
  local STEP, ANCHOR_LENGTH, CLOCK = 1000, 17, 'clock'
  -- MIN_TURN: the smallest part of a turn that a job takes. AVERAGED: the number of jobs over which weights are
  -- averaged.
  local MIN_TURN, AVERAGED = 0.01, 256
  local of_cid, share_of = {}, {}

  local function text_of(anchor, at) return anchor .. string.format('%020.3f', at) end

  -- Returns the virtual clock of a constraint:
  --   anchor        nil if no value was served yet
  --   at            the present time of the clock
  --   anchored_at   its time when the anchor was taken
  --   average       the average weight of jobs in thousandths; nil if the constraint counts jobs
  local function clock_of(cid)
    local virtual = of_cid[cid]
    if not virtual then
      local stored = redis.call('HGET', tag .. 'served:' .. cid, CLOCK)
      local anchor, at, anchored_at, average = string.match(stored or '', '^(%S+) (%S+) (%S+) ?(%S*)$')
      virtual = {anchor = anchor, at = tonumber(at or 0), anchored_at = tonumber(anchored_at or 0),
        average = tonumber(average or '')}
      of_cid[cid] = virtual
    end
    return virtual
  end

  -- Returns the share of the gate's key value.
  local function share(gate_id, limits)
    local found = share_of[gate_id]
    if not found then
      local cid = gate_ids.constraint_of(gate_id)
      found = tonumber(redis.call('HGET', tag .. 'overrides:' .. cid, 'weight:' .. gate_id) or limits.turn_weight)
      share_of[gate_id] = found
    end
    return found
  end

  -- Returns the position of a gate in the order of turns. `first_id`: the first job of the lane. `turn`: the gate's
  -- next turn; nil if the gate has not been served since its constraint got shares.
  local function order_of(gate_id, first_id, turn)
    local virtual = clock_of(gate_ids.constraint_of(gate_id))
    local earliest = first_id
    if virtual.anchor then
      local present = text_of(virtual.anchor, virtual.at)
      if present < first_id then earliest = present end
    end
    return turn and turn > earliest and turn or earliest
  end

  -- Returns how many turns the last job that passed a gate takes. A job that weighs nothing takes a small part of a
  -- turn, so that other values still have their turns.
  local function turns_of(gate, virtual)
    local job_weight, average = gate.weight_default and gate.last_weight, virtual.average
    if not job_weight then return 1 end
    if job_weight > 0 then
      average = average or job_weight
      virtual.average = average + (job_weight - average) / AVERAGED
    end
    return average and math.max(MIN_TURN, job_weight / average) or 1
  end

  -- Serves a gate at its next turn, `turn`. Returns the turn after it. `new_anchor`: a function that returns an anchor
  -- later than all earlier anchors.
  local function serve(gate, turn, new_anchor)
    local gate_id = gate.id
    local cid = gate_ids.constraint_of(gate_id)
    local limits, virtual = constraints.limits_of(cid), clock_of(cid)
    virtual.anchor = virtual.anchor or new_anchor()
    local due = turn and #turn > ANCHOR_LENGTH and tonumber(string.sub(turn, ANCHOR_LENGTH + 1)) or 0
    -- A turn of an earlier anchor does not advance the clock. Such a turn comes before all turns of the present anchor,
    -- even if its number is higher.
    if due > virtual.at and string.sub(turn, 1, ANCHOR_LENGTH) == virtual.anchor then virtual.at = due end
    if virtual.at >= virtual.anchored_at + STEP / limits.least_turn_weight then
      virtual.anchor, virtual.anchored_at = new_anchor(), virtual.at
    end
    virtual.is_changed = true
    return text_of(virtual.anchor, math.max(due, virtual.at) + STEP * turns_of(gate, virtual) / share(gate_id, limits))
  end

  local function write()
    for cid, virtual in pairs(of_cid) do
      if virtual.is_changed then
        redis.call('HSET', tag .. 'served:' .. cid, CLOCK,
          string.format('%s %.3f %.3f', virtual.anchor, virtual.at, virtual.anchored_at)
            .. (virtual.average and string.format(' %.3f', virtual.average) or ''))
      end
    end
  end

  return {share = share, order_of = order_of, serve = serve, write = write}
end)
