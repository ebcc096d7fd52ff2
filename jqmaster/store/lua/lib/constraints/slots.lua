-- include lib/lazily.lua
-- include lib/lists.lua
-- include lib/constraints/gate_ids.lua
-- include lib/constraints/constraints.lua
-- include lib/constraints/handed_over.lua
-- include lib/constraints/charges.lua
-- Slots at gates. `slots:{gates}` has the slots of one keyed gate, or of all shared gates of a group together, because
-- claims always pass these together. `slot_counts` has the sum for each shared gate. A claim therefore costs the same
-- for any number of shared gates.
local slots = lazily.made_by(function()
  local tag = ARGV.tag
  local split, is_shared = gate_ids.split, gate_ids.is_shared

  local function held(gate_id)
    if is_shared(gate_id) then return tonumber(redis.call('HGET', tag .. 'slot_counts', gate_id) or 0) end
    return redis.call('HLEN', tag .. 'slots:' .. gate_id)
  end

  -- Returns how many used slots of a gate count against its limit.
  local function used(gate_id)
    local limits = constraints.limits_of(gate_id)
    if not (limits and limits.is_awaiting_free) then return held(gate_id) end
    return math.max(0, held(gate_id) - handed_over.count(gate_id))
  end

  -- Marks a job as handed over to another system. Returns the gates that no longer count the job's slot.
  local function hand_over(gate_lists, id)
    local freed = {}
    for _, gate_list in ipairs(gate_lists) do
      if gate_list ~= '' and redis.call('HEXISTS', tag .. 'slots:' .. gate_list, id) == 1 then
        handed_over.add(gate_list, id)
        for _, gate_id in ipairs(split(gate_list)) do
          if gate_ids.may_have_charges(gate_id) then charges.hand_over(gate_id, id) end
          local limits = constraints.limits_of(gate_id)
          if limits and limits.is_awaiting_free then freed[#freed + 1] = gate_id end
        end
      end
    end
    return freed
  end

  -- Returns the gate lists under which slots of this gate are stored. A keyed gate is its own list. A shared gate may
  -- be in several lists.
  local function kept_under(gate_id)
    if not is_shared(gate_id) then return {gate_id} end
    local found = {}
    for _, gate_list in ipairs(redis.call('SMEMBERS', tag .. 'slot_lists')) do
      if string.find(gate_list, gate_id, 1, true) then found[#found + 1] = gate_list end
    end
    return found
  end

  -- Returns whether a job that passes these gates needs a slot there.
  local function are_needed(gate_list)
    for _, gate_id in ipairs(split(gate_list)) do
      local limits = constraints.limits_of(gate_id)
      if limits and limits.tracks_slots then return true end
    end
    return false
  end

  local function add_to_sums(gate_list, more)
    for _, gate_id in ipairs(split(gate_list)) do
      if redis.call('HINCRBY', tag .. 'slot_counts', gate_id, more) == 0 then
        redis.call('HDEL', tag .. 'slot_counts', gate_id)
      end
    end
  end

  -- Takes slots. `holders` alternates job IDs and tokens.
  local function take(gate_list, holders)
    local more = redis.call('HSET', tag .. 'slots:' .. gate_list, unpack(holders))
    if more > 0 and is_shared(gate_list) then
      redis.call('SADD', tag .. 'slot_lists', gate_list)
      add_to_sums(gate_list, more)
    end
  end

  -- Gives back the slots of these jobs. Returns how many of the jobs had a slot.
  local function give_back(gate_list, ids)
    local fewer = lists.call('HDEL', tag .. 'slots:' .. gate_list, ids)
    if fewer > 0 then handed_over.remove(gate_list, ids) end
    if fewer > 0 and is_shared(gate_list) then
      if redis.call('EXISTS', tag .. 'slots:' .. gate_list) == 0 then
        redis.call('SREM', tag .. 'slot_lists', gate_list)
      end
      add_to_sums(gate_list, -fewer)
    end
    return fewer
  end

  return {
    used = used, hand_over = hand_over, kept_under = kept_under, are_needed = are_needed, take = take,
    give_back = give_back,
  }
end)
