-- include lib/lazily.lua
-- include lib/jobs/record.lua
-- include lib/lanes/lanes.lua
-- include lib/constraints/gate_ids.lua
-- include lib/constraints/constraints.lua
-- include lib/constraints/slots.lua
-- include lib/constraints/charges.lua
-- include lib/constraints/weights.lua
-- Finds charges that do not agree with the running jobs, and sums that do not agree with the charges.
local charge_faults = lazily.made_by(function()
  local tag = ARGV.tag
  -- The window of a gate with more starts than this is not added up, because that would hold up the store.
  local MOST_STARTS = 50000

  local function passes(head, gate_id)
    local lane, own = lanes.home_of(head)
    for _, ids in ipairs({lane.shared, own or lane.keyed}) do
      for _, id in ipairs(ids) do
        if id == gate_id then return true end
      end
    end
    return false
  end

  local function is_charged_rightly(id, gate_id)
    local head = record.read_head(tag .. 'job:' .. id)
    if head == '' then return false end
    local state = record.state_of(head)
    return (state == layout.STATE.running or state == layout.STATE.awaiting_callback) and passes(head, gate_id)
  end

  -- Returns the jobs that hold a slot at the gate and have no charge there.
  local function uncharged(gate_id, entries)
    local limits, found = constraints.limits_of(gate_id), {}
    if not (limits and limits.weight_default and limits.tracks_slots) then return found end
    for _, gate_list in ipairs(slots.kept_under(gate_id)) do
      for _, id in ipairs(redis.call('HKEYS', tag .. 'slots:' .. gate_list)) do
        if not entries[id] and is_charged_rightly(id, gate_id) then found[#found + 1] = id end
      end
    end
    return found
  end

  local function sum_of_starts(gate_id)
    local key, sum = tag .. 'starts:' .. gate_id, 0
    if redis.call('ZCARD', key) > MOST_STARTS then return nil end
    for _, entry in ipairs(redis.call('ZRANGE', key, 0, -1)) do sum = sum + charges.charge_of(entry) end
    return sum
  end

  -- Returns the state of a gate: `entries` of jobs that are charged rightly, the IDs of others (`leaked`), of jobs that
  -- lack a charge (`missing`), and the sums as they should be and as they are counted.
  local function of(gate_id)
    local found = {entries = {}, leaked = {}, sum = 0, handed_over = 0}
    local stored = redis.call('HGETALL', tag .. 'charges:' .. gate_id)
    for at = 1, #stored, 2 do
      local id, entry = stored[at], stored[at + 1]
      if is_charged_rightly(id, gate_id) then
        found.entries[id], found.sum = entry, found.sum + charges.charge_of(entry)
        if redis.call('SISMEMBER', tag .. 'handed_over:' .. gate_id, id) == 1 then
          found.handed_over = found.handed_over + charges.charge_of(entry)
        end
      else
        found.leaked[#found.leaked + 1] = id
      end
    end
    found.missing = uncharged(gate_id, found.entries)
    found.counted = tonumber(redis.call('HGET', tag .. 'charge_sums', gate_id) or 0)
    found.counted_handed_over = tonumber(redis.call('HGET', tag .. 'handed_over_charges', gate_id) or 0)
    found.counted_starts = tonumber(redis.call('GET', tag .. 'started:' .. gate_id) or 0)
    found.starts = sum_of_starts(gate_id) or found.counted_starts
    found.is_faulty = #found.leaked > 0 or #found.missing > 0 or found.sum ~= found.counted
      or found.handed_over ~= found.counted_handed_over or found.starts ~= found.counted_starts
    return found
  end

  local function set_sum(key, gate_id, sum)
    if sum == 0 then
      redis.call('HDEL', key, gate_id)
    else
      redis.call('HSET', key, gate_id, string.format('%.0f', sum))
    end
  end

  -- Repairs the charges of a gate.
  local function repair(gate_id, found)
    for _, id in ipairs(found.leaked) do redis.call('HDEL', tag .. 'charges:' .. gate_id, id) end
    local limits = constraints.limits_of(gate_id)
    for _, id in ipairs(found.missing) do
      local key = tag .. 'job:' .. id
      local head = record.read_head(key)
      local weight = weights.at({cid = gate_ids.constraint_of(gate_id), weight_default = limits.weight_default},
        weights.of_extras(record.extras_of(key, head)))
      redis.call('HSET', tag .. 'charges:' .. gate_id, id, charges.entry_of(record.token_of(head), weight))
      found.sum = found.sum + weight
    end
    set_sum(tag .. 'charge_sums', gate_id, found.sum)
    set_sum(tag .. 'handed_over_charges', gate_id, found.handed_over)
    local left_ms = redis.call('PTTL', tag .. 'starts:' .. gate_id)
    if left_ms > 0 then
      redis.call('SET', tag .. 'started:' .. gate_id, string.format('%.0f', found.starts), 'PX', left_ms)
    elseif left_ms == -2 then
      redis.call('DEL', tag .. 'started:' .. gate_id)
    end
  end

  return {of = of, repair = repair}
end)
