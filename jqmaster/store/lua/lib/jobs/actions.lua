-- Counts a job that an action on many jobs changes. The count and the change are one step, so the count is exact even
-- if pages of the action are repeated.
local actions = (function()
  local tag = ARGV.tag

  local function count_job(action_id, job_id, is_watched)
    local action_key = tag .. 'action:' .. action_id
    if action_id == '' or redis.call('EXISTS', action_key) == 0 then return end
    redis.call('HINCRBY', action_key, 'done', 1)
    -- Let the action wait for the end of this job. Once the action is over, nothing waits for the job.
    if is_watched and redis.call('SISMEMBER', tag .. 'running_actions', action_id) == 1 then
      redis.call('SADD', tag .. 'watched:' .. action_id, job_id)
    end
  end

  -- Returns whether the action has changed as many jobs as it may. A script that changes a job for an action checks
  -- this before it writes. A repeated page or a second leader then cannot exceed the limit.
  local function is_used_up(action_id)
    if action_id == '' then return false end
    local found = redis.call('HMGET', tag .. 'action:' .. action_id, 'at_most', 'done')
    return found[1] and tonumber(found[2] or 0) >= tonumber(found[1])
  end

  return {count_job = count_job, is_used_up = is_used_up}
end)()
