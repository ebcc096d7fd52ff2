-- include lib/constraints/gate_ids.lua
-- include lib/constraints/constraints.lua
-- include lib/constraints/gates.lua
-- Turns: where a lane stands within its priority.
local turns = (function()
  local tag = ARGV.tag

  -- Orders by the age of the lane's first job; under a fair constraint not before the instant at which its key was last
  -- served.
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

  -- Returns whether a lane takes turns with others at one of its gates.
  local function are_taken(lane)
    for _, gate_id in ipairs(lane.keyed) do
      if constraints.is_fair(gate_id) then return true end
    end
    return false
  end

  return {order_of = order_of, are_taken = are_taken}
end)()
