-- Reads the record of a move for the scripts of moves.
local moves = (function()
  -- Returns whether the caller is the newest mover. `number`: the number that the caller got when it took the move.
  local function is_mover(move_key, number)
    return redis.call('HGET', move_key, 'number') == number and redis.call('HGET', move_key, 'until') ~= '0'
  end

  return {is_mover = is_mover}
end)()
