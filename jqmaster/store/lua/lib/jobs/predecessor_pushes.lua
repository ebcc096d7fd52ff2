-- include lib/lazily.lua
-- include lib/jobs/dependents.lua
-- The predecessors of the jobs of one push.
local predecessor_pushes = lazily.made_by(function()
  local STATUS = {unknown = -6, over = -7}

  -- Returns the predecessors of each job of the push (nil: it has none). From MessagePack: [[number of the job, from 1;
  -- what it waits for; its predecessors; of each whether it is of the same push], …]
  local function read(packed)
    local of_job = {}
    for _, request in ipairs(cmsgpack.unpack(packed)) do
      of_job[request[1]] = {when = tostring(request[2]), ids = request[3], is_own = request[4], waits = {}}
    end
    return of_job
  end

  -- Finds out which of its predecessors a job has to wait for. `accepted`: the jobs that the same call accepts, by
  -- their keys. Returns the status of a refused job, and the predecessor that is the reason (nil: it is not refused). A
  -- predecessor of the same push may be over already, but not one that ended before.
  local function judge(request, accepted, job_prefix)
    for n, id in ipairs(request.ids) do
      local state = dependents.state_of(id)
      if not state and not accepted[job_prefix .. id] then return STATUS.unknown, id end
      local is_met = state and dependents.is_met(state, request.when)
      if state and not is_met and dependents.is_over(state) and request.is_own[n] == 0 then return STATUS.over, id end
      if not is_met then request.waits[#request.waits + 1] = id end
    end
    return nil
  end

  return {read = read, judge = judge}
end)
