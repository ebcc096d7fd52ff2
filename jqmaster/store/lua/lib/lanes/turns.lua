-- include lib/constraints/gate_ids.lua
-- include lib/constraints/constraints.lua
-- include lib/constraints/gates.lua
-- Computes the place of a lane within its priority, which depends on turns under fair constraints.
local turns = (function()
  local tag = ARGV.tag

  -- Returns the lane's order: the ID, and so the age, of its first job, or, under a fair constraint, the stamp of the
  -- last turn of its key value if that is later.
  local function order_of(lane, first_id)
    local order = first_id
    for _, gate_id in ipairs(lane.keyed) do
      if constraints.is_fair(gate_id) then
        local gate = gates.known[gate_id]
        local stamp = gate and gate.served
          or redis.call('HGET', tag .. 'served:' .. gate_ids.constraint_of(gate_id), gate_id)
        if stamp and stamp > order then order = stamp end
      end
    end
    return order
  end

  -- Returns whether a lane takes turns with other lanes at one of its gates.
  local function are_taken(lane)
    for _, gate_id in ipairs(lane.keyed) do
      if constraints.is_fair(gate_id) then return true end
    end
    return false
  end

  return {order_of = order_of, are_taken = are_taken}
end)()
