-- Reads keys for scripts that must not stop at a key of another type, and for scripts whose keys mostly do not exist.
local reading = (function()
  -- Returns the reply to a command; nil if the store answered with an error.
  local function try(...)
    local found = redis.pcall(...)
    if type(found) == 'table' and found.err then return nil end
    return found
  end

  -- Calls `read` with the index of each key that exists, from index `from` to index `to`. If only some of these keys
  -- exist, checks each half separately. `unpack` cannot fail, because callers have at most some thousand keys.
  local function each_existing(keys, from, to, read)
    local count = redis.call('EXISTS', unpack(keys, from, to))
    if count == to - from + 1 then
      for at = from, to do read(at) end
    elseif count > 0 then
      local middle = math.floor((from + to) / 2)
      each_existing(keys, from, middle, read)
      each_existing(keys, middle + 1, to, read)
    end
  end

  return {try = try, each_existing = each_existing}
end)()
