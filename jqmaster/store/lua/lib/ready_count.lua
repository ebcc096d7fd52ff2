-- include lib/lanes.lua
-- How many jobs of a name are ready, and how many are counted: nil where it has too many lanes to say so at one instant.
local MOST_LANES = 500
local function ready_and_counted(name, counts_key)
  local lanes = redis.call('ZRANGE', tag .. 'lanes:' .. name, 0, MOST_LANES)
  if #lanes > MOST_LANES then return nil end
  local ready = 0
  for _, id in ipairs(lanes) do ready = ready + redis.call('ZCARD', tag .. 'ready:' .. id) end
  return ready, tonumber(redis.call('HGET', counts_key, name) or 0), #lanes
end
