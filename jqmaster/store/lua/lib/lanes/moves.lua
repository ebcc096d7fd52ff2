-- include lib/lazily.lua
-- include lib/lanes/lanes.lua
-- Moves a waiting job to another lane or index.
local moves = lazily.made_by(function()
  local tag = ARGV.tag
  local READY, index = layout.STATE.ready, layout.index

  -- Removes job `id` from where it waited, unless it stays ready in the same lane, and counts it out there. The caller
  -- adds it where it waits from now on.
  local function leave(id, state, old_lane, old_own, target, lane)
    if state == READY and (target ~= state or lane.id ~= old_lane.id) then lanes.remove(old_lane, id)
    elseif target ~= state then redis.call('ZREM', tag .. index[state], id) end
    lanes.count(old_lane, old_own, -1, -1)
    -- A changed priority moves the job in its lane, and perhaps the lane with it.
    if target == READY then lanes.touch(lane).has_moved = true end
  end

  return {leave = leave}
end)
