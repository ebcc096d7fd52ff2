-- include lib/lanes/lane_queue.lua
-- Reads ready jobs ahead of a claim that takes them from the front of their lanes.
local read_ahead = (function()
  local tag = ARGV.tag
  local job_prefix = tag .. 'job:'
  -- How many records to read at once. FEW: at first, so that large records waste little memory. MANY: if the first
  -- records are smaller than SMALL bytes.
  local FEW, MANY, SMALL = 4, 64, 4096
  -- Maximum number of jobs of one lane to read ahead if jobs of other lanes may come between them.
  local MAX_OF_ONE = 16
  local at_once = FEW
  local jobs_read = 0

  -- Returns the priority and the ID of the lane's first job that is not yet taken. `most`: how many more jobs the claim
  -- may take. `room`: for how many more jobs the lane's gates have room.
  local function first_of(lane, room, most)
    local ahead, at = lane.ahead, lane.at_job
    if not ahead or (at > #ahead and lane.has_more) then
      -- Read one more job than may start. That job determines the next position of the lane in the order.
      local wanted = math.min(lane_queue.first() and MAX_OF_ONE or most, most, room) + 1
      local from = lane.looked_at or 0
      ahead, at = redis.call('ZRANGE', tag .. 'ready:' .. lane.id, from, from + wanted - 1, 'WITHSCORES'), 1
      lane.ahead, lane.at_job, lane.looked_at, lane.has_more = ahead, at, from + #ahead / 2, #ahead == wanted * 2
      lane.records, lane.keys, lane.first_read_at = {}, {}, at
      jobs_read = jobs_read + #ahead / 2
    end
    -- Add 0 to convert the text to a number. This is faster than `tonumber`.
    local score = ahead[at + 1]
    return score and score + 0, ahead[at]
  end

  -- Reads the records of jobs from position `at` on. Returns the first record and its key.
  local function read_from(lane, at, most)
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

  -- Removes the first job. Returns its record (false: it is missing or not a string) and the record's key. `most`: how
  -- many more jobs the claim may take.
  local function take_first(lane, most)
    local at = lane.at_job
    lane.at_job, lane.taken = at + 2, lane.taken + 1
    local n = (at - lane.first_read_at) / 2 + 1
    local job = lane.records[n]
    if job ~= nil then return job, lane.keys[n] end
    return read_from(lane, at, most)
  end

  -- Undoes the last `take_first`.
  local function put_back(lane)
    lane.at_job, lane.taken = lane.at_job - 2, lane.taken - 1
  end

  local function count()
    return jobs_read
  end

  return {first_of = first_of, take_first = take_first, put_back = put_back, count = count}
end)()
