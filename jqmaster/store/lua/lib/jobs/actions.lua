-- Counts a job for the action on many jobs that changes it. The count and the change are one step, so the count is
-- exact even if pages of the action are repeated.
local actions = (function()
  local tag = ARGV.tag

  local function count_job(action_id, job_id, is_watched)
    local action_key = tag .. 'action:' .. action_id
    if action_id == '' or redis.call('EXISTS', action_key) == 0 then return end
    redis.call('HINCRBY', action_key, 'done', 1)
    -- The action waits for the end of these jobs. Once the action is over, nothing waits for them.
    if is_watched and redis.call('SISMEMBER', tag .. 'running_actions', action_id) == 1 then
      redis.call('SADD', tag .. 'watched:' .. action_id, job_id)
    end
  end

  return {count_job = count_job}
end)()
