-- include lib/lazily.lua
-- include lib/lists.lua
-- include lib/lanes/lanes.lua
-- Moves a waiting job to another lane or index, or removes it.
local lane_changes = lazily.made_by(function()
  local tag = ARGV.tag
  local READY, RETRYING, index = layout.STATE.ready, layout.STATE.retrying, layout.index

  -- Subtracts job `id` from the counts of its old lane. Removes the job from its old lane or index if it does not stay
  -- there. The caller adds the job to its new lane or index.
  local function leave(id, state, old_lane, old_own, target, lane)
    if state == READY and (target ~= state or lane.id ~= old_lane.id) then lanes.remove(old_lane, id)
    elseif target ~= state then redis.call('ZREM', tag .. index[state], id) end
    lanes.count(old_lane, old_own, -1, -1)
    -- The job stays in its lane. A changed priority may move the job within the lane, and the lane among other lanes.
    if target == READY then
      lanes.touch(lane).has_moved = true
      table.insert(lists.under(lane, 'shifted'), id)
    end
  end

  -- Removes job `id` from its lane or index, because it no longer waits. The caller changes the lane's counts.
  local function remove(id, state, lane, own)
    if index[state] then redis.call('ZREM', tag .. index[state], id) else lanes.remove(lane, id) end
    -- Gates may keep room for a ready job, and for a suspect. A suspect waits for a worker without other jobs, and is
    -- in no lane.
    if state ~= READY and state ~= RETRYING then return end
    if state == RETRYING then table.insert(lists.under(lanes.touch(lane), 'shifted'), id) end
    for _, gate_id in ipairs(own or {}) do table.insert(lists.under(lane, 'left_own'), gate_id) end
  end

  return {leave = leave, remove = remove}
end)
