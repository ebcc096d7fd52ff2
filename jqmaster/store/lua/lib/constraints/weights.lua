-- include lib/lazily.lua
-- include lib/jobs/record.lua
-- include lib/constraints/gate_ids.lua
-- include lib/constraints/gates.lua
-- include lib/constraints/kept_room.lua
-- include lib/constraints/weighing.lua
-- include lib/lanes/turns.lua
-- The weights of jobs. The extras of a record have the job's own weights by constraint, in thousandths. If they
-- have no weight for a constraint, the job has the constraint's default weight.
local weights = lazily.made_by(function()
  local tag = ARGV.tag
  local NONE = {}
  local last_job, last_found

  -- Returns the weights in the extras of a record, by constraint.
  local function of_extras(extras)
    if extras == '' then return NONE end
    local is_read, fields = pcall(cmsgpack.unpack, extras)
    local found = is_read and type(fields) == 'table' and fields.weights
    return type(found) == 'table' and found or NONE
  end

  -- Returns the weights in a whole record that is not damaged.
  local function of_record(job)
    if job ~= last_job then
      last_job, last_found = job, of_extras(record.extras_in(job))
    end
    return last_found
  end

  -- Returns the weight of a job at a gate, and whether its record has this weight. `found`: the weights in the record.
  local function at(gate, found)
    local weight = found[gate.cid]
    if type(weight) == 'number' then return weight, true end
    return gate.weight_default, false
  end

  -- Returns those of the gates that have a weight; nil: none has.
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

  -- Returns whether a job can start at all of these gates, and whether none of them keeps room for another job. If not,
  -- `first_too_small` finds the gate.
  local function all_have_room(weighted, found)
    for n = 1, #weighted do
      local gate = weighted[n]
      if gate.kept or not (gate.is_shadow or weighing.fits(gate, (at(gate, found)))) then return false end
    end
    return true
  end

  -- Returns the first of these gates at which a job cannot start; nil: it can start at all of them. Closes that gate
  -- for the rest of this call. `place`: the job's place in the order of claims.
  local function first_too_small(weighted, found, place)
    local first
    for _, gate in ipairs(weighted) do
      local weight = at(gate, found)
      if not gate.is_shadow and (not weighing.fits(gate, weight) or weighing.holds_back(gate, weight, place)) then
        weighing.close_for(gate, weight, place)
        first = first or gate
      end
    end
    -- Gates that keep room for the job continue to do so. Otherwise, other jobs would use up this room while the job
    -- waits at another gate.
    for _, gate in ipairs(first and weighted or {}) do
      if gate.kept and gate.kept.id == place.id then weighing.keep_for(gate, at(gate, found), place) end
    end
    return first
  end

  -- Keeps room for this job even if the gate is closed to all jobs.
  local function keep_at_closed(gate, found, place)
    if gate.weight_default and not (gate.is_paused or gate.is_damaged or gate.held_until_ms) then
      weighing.keep_for(gate, at(gate, found), place)
    end
  end

  -- Keeps room for the first job of a lane at a gate that is closed to all jobs. Does nothing if this call has closed
  -- the gate for such a job. Reads the job's record only if the note does not have the job's weight.
  local function keep_for_first(gate, lane)
    if gate.is_asked then return end
    -- Skip the jobs that this call has already taken, because they are not removed from the lane yet.
    local first = redis.call('ZRANGE', tag .. 'ready:' .. lane.id, lane.taken, lane.taken, 'WITHSCORES')
    local id, kept = first[1], gate.kept
    if not id then return end
    local place = {id = id, score = tonumber(first[2]), order = turns.order_of(lane, id) .. lane.id}
    if not kept or kept.id ~= id and kept_room.is_first(kept, place) then
      local key = tag .. 'job:' .. id
      local head = record.read_head(key)
      if head ~= '' then keep_at_closed(gate, of_extras(record.extras_of(key, head)), place) end
    else
      keep_at_closed(gate, {[gate.cid] = kept.need}, place)
    end
  end

  return {
    of_extras = of_extras, of_record = of_record, at = at, among = among, all_have_room = all_have_room,
    first_too_small = first_too_small, keep_at_closed = keep_at_closed, keep_for_first = keep_for_first,
  }
end)
