-- include lib/lanes/lane_queue.lua
-- Reads ready jobs ahead of a claim that takes them from the front of their lanes.
local read_ahead = (function()
  local tag = ARGV.tag
  local job_prefix = tag .. 'job:'
  -- Records are read a few at once, and many once they have proved small, so that only a few large ones are held for
  -- nothing.
  local FEW, MANY, SMALL = 4, 64, 4096
  -- Most jobs read of one lane while others may come in between.
  local MOST_OF_ONE = 16
  local at_once = FEW
  local jobs_read = 0

  -- Priority and ID of the first job of a lane that is not yet taken. `most` may start, of which this lane has room for
  -- `room`.
  local function first_of(lane, room, most)
    local ahead, at = lane.ahead, lane.at_job
    if not ahead or (at > #ahead and lane.has_more) then
      -- Reads one more than may start: the next job says where the lane stands then.
      local wanted = math.min(lane_queue.first() and MOST_OF_ONE or most, most, room) + 1
      local from = lane.looked_at or 0
      ahead, at = redis.call('ZRANGE', tag .. 'ready:' .. lane.id, from, from + wanted - 1, 'WITHSCORES'), 1
      lane.ahead, lane.at_job, lane.looked_at, lane.has_more = ahead, at, from + #ahead / 2, #ahead == wanted * 2
      lane.records, lane.keys, lane.first_read_at = {}, {}, at
      jobs_read = jobs_read + #ahead / 2
    end
    -- A sum is a number, and takes less time than a call of `tonumber`.
    local score = ahead[at + 1]
    return score and score + 0, ahead[at]
  end

  -- Takes that job from its lane. Returns its record (false: there is none, or no string) and key. `most` more may
  -- start.
  local function take_first(lane, most)
    local at = lane.at_job
    lane.at_job, lane.taken = at + 2, lane.taken + 1
    local n = (at - lane.first_read_at) / 2 + 1
    local job = lane.records[n]
    if job ~= nil then return job, lane.keys[n] end
    local keys, ahead = {}, lane.ahead
    for next_at = at, math.min(#ahead, at + 2 * math.min(at_once, most)) - 1, 2 do
      keys[#keys + 1] = job_prefix .. ahead[next_at]
    end
    local records = redis.call('MGET', unpack(keys))
    at_once = MANY
    for _, found in ipairs(records) do
      if found and #found > SMALL then at_once = FEW end
    end
    lane.records, lane.keys, lane.first_read_at = records, keys, at
    return records[1], keys[1]
  end

  local function count()
    return jobs_read
  end

  return {first_of = first_of, take_first = take_first, count = count}
end)()
