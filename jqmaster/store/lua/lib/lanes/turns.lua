-- include lib/constraints/gate_ids.lua
-- include lib/constraints/constraints.lua
-- include lib/constraints/gates.lua
-- include lib/constraints/turn_clock.lua
-- Computes the place of a lane within its priority, which depends on turns under fair constraints.
local turns = (function()
  local tag = ARGV.tag

  -- Returns the text that orders the lane within its priority. Usually this is the ID of the lane's first job, so lanes
  -- are ordered by age. Under a fair constraint, the text begins with the stamp of the key value's last turn, if that
  -- stamp is later than the ID. For turns by share, see turn_clock.lua.
  local function order_of(lane, first_id)
    local order = first_id
    for _, gate_id in ipairs(lane.keyed) do
      if constraints.is_fair(gate_id) then
        local gate = gates.known[gate_id]
        local stamp = gate and gate.served
          or redis.call('HGET', tag .. 'served:' .. gate_ids.constraint_of(gate_id), gate_id)
        if constraints.limits_of(gate_id).turn_weight then
          stamp = turn_clock.order_of(gate_id, first_id, stamp)
          -- Use the turn even if it is earlier, because a turn by share may come before the age of the first job.
          if order == first_id then order = stamp end
        end
        if stamp and stamp > order then order = stamp end
      end
    end
    return order == first_id and order or order .. first_id
  end

  -- Returns whether a lane takes turns with other lanes at one of its gates.
  local function are_taken(lane)
    for _, gate_id in ipairs(lane.keyed) do
      if constraints.is_fair(gate_id) then return true end
    end
    return false
  end

  -- Returns whether a lane takes turns by share, and its share.
  local function share_of(lane)
    for _, gate_id in ipairs(lane.keyed) do
      local limits = constraints.is_fair(gate_id) and constraints.limits_of(gate_id)
      if limits and limits.turn_weight then return true, turn_clock.share(gate_id, limits) end
    end
    return false, 1
  end

  return {order_of = order_of, are_taken = are_taken, share_of = share_of}
end)()
