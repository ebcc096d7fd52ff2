-- The record of a move, as the scripts of moves read it.
local moves = (function()
  -- Returns whether the caller is the mover that took the move last. `number`: the one that it was given.
  local function is_mover(move_key, number)
    return redis.call('HGET', move_key, 'number') == number and redis.call('HGET', move_key, 'until') ~= '0'
  end

  return {is_mover = is_mover}
end)()
