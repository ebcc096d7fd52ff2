-- include lib/lazily.lua
-- include lib/jobs/dependents.lua
-- Checks the predecessors of the jobs of one push.
local predecessor_pushes = lazily.made_by(function()
  -- Returns the predecessors of each job of the push (nil: none). `packed`: MessagePack with a list for each job that
  -- has predecessors:
  --   its number, from 1
  --   its condition
  --   its predecessors
  --   for each predecessor, whether it belongs to the same push
  local function read(packed)
    local of_job = {}
    for _, request in ipairs(cmsgpack.unpack(packed)) do
      of_job[request[1]] = {when = tostring(request[2]), ids = request[3], is_own = request[4], waits = {}}
    end
    return of_job
  end

  -- Adds to `request.waits` the predecessors for which the job must wait. `accepted`: the jobs that this call accepts,
  -- by key. Returns nil, or the reply word of a refusal and the predecessor that causes the refusal.
  --
  -- A predecessor causes a refusal if it does not exist, or if it has ended in another way than required. The end of a
  -- predecessor from the same push causes no refusal.
  local function judge(request, accepted, job_prefix)
    for n, id in ipairs(request.ids) do
      local state = dependents.state_of(id)
      if not state and not accepted[job_prefix .. id] then return 'no_predecessor', id end
      local is_met = state and dependents.is_met(state, request.when)
      if state and not is_met and dependents.is_over(state) and request.is_own[n] == 0 then
        return 'predecessor_over', id
      end
      if not is_met then request.waits[#request.waits + 1] = id end
    end
    return nil
  end

  return {read = read, judge = judge}
end)
