-- include lib/lazily.lua
-- include lib/lists.lua
-- include lib/lanes/lanes.lua
-- Moves a waiting job to another lane or index.
local moves = lazily.made_by(function()
  local tag = ARGV.tag
  local READY, index = layout.STATE.ready, layout.index

  -- Removes job `id` from its old lane or index and from the lane's counts, unless it stays ready in the same lane. The
  -- caller adds it to the new one.
  local function leave(id, state, old_lane, old_own, target, lane)
    if state == READY and (target ~= state or lane.id ~= old_lane.id) then lanes.remove(old_lane, id)
    elseif target ~= state then redis.call('ZREM', tag .. index[state], id) end
    lanes.count(old_lane, old_own, -1, -1)
    -- A changed priority moves the job within its lane, and may move the lane in its order.
    if target == READY then
      lanes.touch(lane).has_moved = true
      table.insert(lists.under(lane, 'shifted'), id)
    end
  end

  return {leave = leave}
end)
