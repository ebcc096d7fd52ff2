-- include lib/lazily.lua
-- include lib/lists.lua
-- include lib/constraints/gate_ids.lua
-- Records which conditional override applies to the jobs of a key value. The job that was placed last decides.
-- `conditions:{cid}` has the ID of the override by gate. Gates without an override have no entry.
local gate_conditions = lazily.made_by(function()
  local tag = ARGV.tag
  local noted = {}

  local function note(gate_id, condition) noted[gate_id] = condition end

  -- Writes the records that have changed. Returns the gates whose limits change as a result.
  local function write()
    local of_cid, changed = {}, {}
    for gate_id in pairs(noted) do
      table.insert(lists.under(of_cid, gate_ids.constraint_of(gate_id)), gate_id)
    end
    for cid, ids in pairs(of_cid) do
      local key, set, gone = tag .. 'conditions:' .. cid, {}, {}
      for from = 1, #ids, 500 do
        for i, before in ipairs(redis.call('HMGET', key, unpack(ids, from, math.min(from + 499, #ids)))) do
          local gate_id = ids[from + i - 1]
          local now = noted[gate_id]
          if now ~= (before or '') then
            changed[#changed + 1] = gate_id
            if now == '' then gone[#gone + 1] = gate_id else lists.add_pair(set, gate_id, now) end
          end
        end
      end
      lists.call('HSET', key, set)
      lists.call('HDEL', key, gone)
    end
    return changed
  end

  return {note = note, write = write}
end)
