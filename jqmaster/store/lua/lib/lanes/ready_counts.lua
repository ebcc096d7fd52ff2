-- Counts the ready jobs of a name.
local ready_counts = (function()
  local tag = ARGV.tag
  local MAX_LANES = 500

  -- Returns the number of ready jobs, the stored count of these jobs, and the number of lanes; nil: there are too many
  -- lanes for one call.
  local function of(name, counts_key)
    local ids = redis.call('ZRANGE', tag .. 'lanes:' .. name, 0, MAX_LANES)
    if #ids > MAX_LANES then return nil end
    local ready = 0
    for _, id in ipairs(ids) do ready = ready + redis.call('ZCARD', tag .. 'ready:' .. id) end
    return ready, tonumber(redis.call('HGET', counts_key, name) or 0), #ids
  end

  return {of = of}
end)()
