-- Finds out which move has frozen the data of a namespace.
local freezes = (function()
  -- Returns whether this mover of this move has frozen the data.
  local function are_of(frozen_key, id, number)
    local frozen = redis.call('GET', frozen_key) or ''
    local by, held = string.match(frozen, '^(%S+) (%d+) %S*$')
    return by == id and held == number
  end

  -- Returns the ID of the move that holds the lead; nil: no move does. A move holds the lead as long as the data are
  -- frozen, even if the store has lost the key `frozen`.
  local function leads(leader_key)
    return string.match(redis.call('GET', leader_key) or '', '^[^:]*:moved:(.+)$')
  end

  return {are_of = are_of, leads = leads}
end)()
