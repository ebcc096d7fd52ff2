-- The clock of all scripts. It is the store's clock, unless a test passes a time.
local clock = (function()
  -- Call this only once per script, because TIME changes within a script on Redis 7.0.
  local function now_ms(given)
    if given ~= '' then return tonumber(given) end
    local t = redis.call('TIME')
    return t[1] * 1000 + math.floor(t[2] / 1000)
  end

  return {now_ms = now_ms}
end)()
