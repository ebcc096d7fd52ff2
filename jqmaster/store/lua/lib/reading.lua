-- Reads for scripts that must not stop at a key of a wrong type.
local reading = (function()
  -- Returns the reply to a command; nil if the store answered with an error.
  local function try(...)
    local found = redis.pcall(...)
    if type(found) == 'table' and found.err then return nil end
    return found
  end

  return {try = try}
end)()
