-- include lib/lazily.lua
-- include lib/lists.lua
-- include lib/constraints/gate_ids.lua
-- Jobs that have handed their work over to another system and await its callback. These jobs keep their slots.
-- `handed_over:{gate}` has the IDs of those that hold a slot at the gate. `handed_over_gates` lists the gates with such
-- jobs. A constraint with `counts_awaiting: false` subtracts these jobs, so a change of this option takes effect at
-- once.
local handed_over = lazily.made_by(function()
  local tag = ARGV.tag
  local has_any = nil

  local function count(gate_id) return redis.call('SCARD', tag .. 'handed_over:' .. gate_id) end

  -- Lists a job at its gates. `gate_list`: the gates under which its slot is stored.
  local function add(gate_list, id)
    for _, gate_id in ipairs(gate_ids.split(gate_list)) do
      redis.call('SADD', tag .. 'handed_over:' .. gate_id, id)
      redis.call('SADD', tag .. 'handed_over_gates', gate_id)
      has_any = true
    end
  end

  local function remove_at(gate_id, ids)
    local fewer = lists.call('SREM', tag .. 'handed_over:' .. gate_id, ids)
    if redis.call('EXISTS', tag .. 'handed_over:' .. gate_id) == 0 then
      redis.call('SREM', tag .. 'handed_over_gates', gate_id)
    end
    return fewer
  end

  -- Returns whether any jobs are handed over. If there are none, this costs one command per call.
  local function is_used()
    if has_any == nil then has_any = redis.call('EXISTS', tag .. 'handed_over_gates') == 1 end
    return has_any
  end

  -- Removes these jobs from the lists of the gates where they give back their slots.
  local function remove(gate_list, ids)
    if not is_used() then return end
    for _, gate_id in ipairs(gate_ids.split(gate_list)) do remove_at(gate_id, ids) end
  end

  return {count = count, add = add, remove_at = remove_at, is_used = is_used, remove = remove}
end)
