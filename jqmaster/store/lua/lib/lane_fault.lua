-- include lib/lanes.lua
-- What is wrong with a lane, seen at one instant; empty where nothing is. `edition` is that of the rules.
local function fault_of(id, edition)
  local lane = lane_by_id(id)
  local ready = redis.call('ZCARD', tag .. 'ready:' .. id)
  if lane.is_lost then return ready > 0 and 'ready jobs in a lane that nothing tells of' or '' end
  if redis.call('ZSCORE', tag .. 'lanes:' .. lane.name, id) ~= tostring(lane.edition) then return 'its name does not list it under its edition' end
  if lane.jobs < ready then return string.format('counts %d unfinished jobs, %d are ready', lane.jobs, ready) end
  if ready == 0 then return lane.member ~= '' and 'is empty and stands in an order' or '' end
  local index_key = lane.at == '' and tag .. 'open:' .. lane.group or tag .. 'parked:' .. lane.at .. ':' .. lane.group
  local score = redis.call('ZSCORE', index_key, lane.member)
  if not score or tonumber(score) ~= lane.score then return 'does not stand where it says' end
  local first = redis.call('ZRANGE', tag .. 'ready:' .. id, 0, 0, 'WITHSCORES')
  -- A fair lane may stand later than its first job, never earlier.
  if tonumber(first[2]) ~= lane.score or string.sub(lane.member, 1, -ID_LENGTH - 1) < first[1] then return 'does not stand where its first job belongs' end
  if lane.edition ~= edition then return '' end
  if lane.at ~= '' then
    return redis.call('SISMEMBER', tag .. 'waiters:' .. lane.at, 'L' .. lane.group .. lane.name) == 0 and 'lies at a gate that does not know it' or ''
  end
  if redis.call('SISMEMBER', tag .. 'open_groups:' .. lane.name, lane.group) == 1 then return '' end
  for _, gate_id in ipairs(lane.shared) do
    if redis.call('SISMEMBER', tag .. 'waiters:' .. gate_id, 'G' .. lane.group .. lane.name) == 1 then return '' end
  end
  return 'is open, and no claim would find its group'
end
