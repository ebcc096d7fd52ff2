-- include lib/lazily.lua
-- include lib/lists.lua
-- include lib/constraints/constraints.lua
-- include lib/constraints/gates.lua
-- include lib/constraints/turn_clock.lua
-- Records which key values of fair constraints were served, so that other values have the next turns.
local served = lazily.made_by(function()
  local tag = ARGV.tag
  local newest, of_cid = nil, {}

  -- Returns a stamp: the present instant in the form of a job ID, so that it sorts among job IDs. Each stamp is later
  -- than all earlier stamps.
  local function next_stamp(now_ms)
    newest = math.max((newest or tonumber(redis.call('GET', tag .. 'served_stamp') or 0)) + 1, now_ms * 1000)
    local ms = math.floor(newest / 1000)
    return string.format('%08x-%04x-%03d', math.floor(ms / 65536), ms % 65536, newest % 1000)
  end

  -- Marks the key values of a lane as served. Returns whether any of these values takes turns.
  local function mark(lane, now_ms)
    local stamp, is_marked = nil, false
    for _, gate_id in ipairs(lane.keyed) do
      local gate = gates.of(gate_id, now_ms)
      if gate.is_fair and not gate.is_shadow then
        if constraints.limits_of(gate_id).turn_weight then
          local turn = gate.served or redis.call('HGET', tag .. 'served:' .. gate.cid, gate_id)
          gate.served = turn_clock.serve(gate, turn, function() return next_stamp(now_ms) end)
        else
          stamp = stamp or next_stamp(now_ms)
          gate.served = stamp
        end
        lists.add_pair(lists.under(of_cid, gate.cid), gate_id, gate.served)
        is_marked = true
      end
    end
    return is_marked
  end

  local function write()
    for cid, list in pairs(of_cid) do redis.call('HSET', tag .. 'served:' .. cid, unpack(list)) end
    if lazily.is_made(turn_clock) then turn_clock.write() end
    if newest then redis.call('SET', tag .. 'served_stamp', string.format('%.0f', newest)) end
  end

  return {mark = mark, write = write}
end)
