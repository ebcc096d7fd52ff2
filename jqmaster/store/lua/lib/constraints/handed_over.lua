-- include lib/lazily.lua
-- include lib/lists.lua
-- include lib/constraints/gate_ids.lua
-- Jobs whose work is with another system, by the gates at which they hold slots: `handed_over:{gate}` has their IDs,
-- and `handed_over_gates` lists the gates that have any. They keep their slots, and a constraint with `counts_awaiting:
-- false` does not count them, so a change of the constraint is in force at once.
local handed_over = lazily.made_by(function()
  local tag = ARGV.tag
  local has_any = nil

  local function count(gate_id) return redis.call('SCARD', tag .. 'handed_over:' .. gate_id) end

  -- `gate_list`: gates under which the slot of this job is kept.
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

  -- Removes jobs whose slots at these gates are given back.
  local function remove(gate_list, ids)
    -- Asks once per script: if no job has handed over its work, that is the whole cost.
    if has_any == nil then has_any = redis.call('EXISTS', tag .. 'handed_over_gates') == 1 end
    if not has_any then return end
    for _, gate_id in ipairs(gate_ids.split(gate_list)) do remove_at(gate_id, ids) end
  end

  return {count = count, add = add, remove_at = remove_at, remove = remove}
end)
