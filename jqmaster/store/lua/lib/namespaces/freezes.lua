-- Finds out whose move has frozen the data of a namespace.
local freezes = (function()
  -- Returns whether the data were frozen by this mover of this move.
  local function are_of(frozen_key, id, number)
    local frozen = redis.call('GET', frozen_key) or ''
    local by, held = string.match(frozen, '^(%S+) (%d+) %S*$')
    return by == id and held == number
  end

  return {are_of = are_of}
end)()
