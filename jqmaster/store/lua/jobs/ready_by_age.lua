#!lua flags=no-writes
-- Reads the first ready jobs of some lanes after a position, ordered by age (their IDs) and not by priority. A lane
-- consists of runs: jobs of one priority, ordered by ID. The script merges the runs of the lanes. It reads a limited
-- number of runs, and returns the lane and the rank at which the next call continues.
-- KEYS [+ ready:zset]
-- ARGV after(empty: from the start)
--   count
--   first_rank(of the first lane)
--   is_backward(1: the newest first)
-- REPLY ok:[id],next_lane(0: all were read),next_rank
-- CHECKS FIRST nothing, because it only reads
local after, count, first_rank, is_backward = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4] == '1'
local MAX_RUNS, FEW, MORE = 1000, 4, 32

local function comes_before(id, other)
  if is_backward then return id > other end
  return id < other
end

-- Reads the IDs of the next members of a run into its buffer. Returns false if the run has no more members.
local function refill(run)
  if run.first > run.last then return false end
  local low, high = run.first, math.min(run.last, run.first + run.size - 1)
  if is_backward then low, high = math.max(run.first, run.last - run.size + 1), run.last end
  local ids = redis.call('ZRANGE', run.key, low, high)
  if is_backward then
    run.ids, run.last = {}, low - 1
    for i = #ids, 1, -1 do run.ids[#run.ids + 1] = ids[i] end
  else
    run.ids, run.first = ids, high + 1
  end
  run.at, run.size = 1, MORE
  return ids[1] ~= nil
end

-- Searches the ranks from `first` to `last - 1`, all members of one priority. Returns the rank of the first member
-- after the position `after`.
local function rank_behind(key, first, last)
  while first < last do
    local middle = math.floor((first + last) / 2)
    local id = redis.call('ZRANGE', key, middle, middle)[1]
    if id < after or (id == after and not is_backward) then first = middle + 1 else last = middle end
  end
  return first
end

local runs, next_lane, next_rank = {}, 0, 0

local function read_lane(lane)
  local key = KEYS[lane]
  local rank = lane == 1 and first_rank or 0
  local card = redis.call('ZCARD', key)
  while rank < card do
    if #runs >= MAX_RUNS then
      next_lane, next_rank = lane, rank
      return false
    end
    local score = redis.call('ZRANGE', key, rank, rank, 'WITHSCORES')[2]
    local behind = redis.call('ZCOUNT', key, '-inf', score)
    local run = {key = key, first = rank, last = behind - 1, size = FEW}
    if after ~= '' then
      local at = rank_behind(key, rank, behind)
      if is_backward then run.last = at - 1 else run.first = at end
    end
    if refill(run) then runs[#runs + 1] = run end
    rank = behind
  end
  return true
end

for lane = 1, #KEYS do
  if not read_lane(lane) then break end
end

-- Sorts the runs so that the run with the first job is last.
table.sort(runs, function(a, b) return comes_before(b.ids[1], a.ids[1]) end)

local function put_back(run)
  local id, low, high = run.ids[run.at], 1, #runs + 1
  while low < high do
    local middle = math.floor((low + high) / 2)
    local other = runs[middle]
    if comes_before(other.ids[other.at], id) then high = middle else low = middle + 1 end
  end
  table.insert(runs, low, run)
end

local found = {}
while #found < count and #runs > 0 do
  local run = table.remove(runs)
  found[#found + 1] = run.ids[run.at]
  run.at = run.at + 1
  if run.ids[run.at] or refill(run) then put_back(run) end
end
return {'ok', found, next_lane, next_rank}
