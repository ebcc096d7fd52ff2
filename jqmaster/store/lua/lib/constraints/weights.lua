-- include lib/lazily.lua
-- include lib/jobs/record.lua
-- include lib/constraints/gate_ids.lua
-- include lib/constraints/gates.lua
-- include lib/constraints/weighing.lua
-- The weights of jobs. A record has, in its extras, the thousandths of each constraint whose path its job has. Any
-- other job has the default weight.
local weights = lazily.made_by(function()
  local NONE = {}
  local last_job, last_found

  -- Returns the weights in the extras of a record, by constraint.
  local function of_extras(extras)
    if extras == '' then return NONE end
    local is_read, fields = pcall(cmsgpack.unpack, extras)
    local found = is_read and type(fields) == 'table' and fields.weights
    return type(found) == 'table' and found or NONE
  end

  -- Does the same for a whole record that is not damaged.
  local function of_record(job)
    if job ~= last_job then
      last_job, last_found = job, of_extras(record.extras_in(job))
    end
    return last_found
  end

  -- Returns the weight of a job at a gate, and whether its record has it. `found`: the weights in the record.
  local function at(gate, found)
    local weight = found[gate.cid]
    if type(weight) == 'number' then return weight, true end
    return gate.weight_default, false
  end

  -- Returns those of the gates that have a weight; nil if none has.
  local function among(ids, now_ms, so_far)
    for _, id in ipairs(ids) do
      if gate_ids.may_have_charges(id) then
        local gate = gates.of(id, now_ms)
        if gate.weight_default then
          so_far = so_far or {}
          so_far[#so_far + 1] = gate
        end
      end
    end
    return so_far
  end

  -- Returns the first of these gates at which a job does not fit, and closes it for the rest of this call; nil if it
  -- fits at all of them.
  local function first_too_small(weighted, found)
    for _, gate in ipairs(weighted) do
      local weight = at(gate, found)
      if not gate.is_shadow and not weighing.fits(gate, weight) then
        weighing.close_for(gate, weight)
        return gate
      end
    end
    return nil
  end

  return {of_extras = of_extras, of_record = of_record, at = at, among = among, first_too_small = first_too_small}
end)
