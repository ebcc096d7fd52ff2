#!lua flags=no-writes
-- Samples the sizes of the records of waiting jobs.
-- KEYS
-- ARGV tag
--   seed(of the random choice)
--   [+ kind(`index`: the jobs of an index; `name`: the ready jobs of a name)
--      which(the index without its tag, or the name)
--      draws(about how many records to measure)]
-- REPLY ok:[bytes](for each group: the mean size, as text; 0: no such job is left)
-- CHECKS FIRST nothing, because it only reads
local tag, seed = ARGV[1], tonumber(ARGV[2])
local FIRST, WIDTH = 3, 3
local MAX_LANES = 32
math.randomseed(seed)

-- Returns the members of a sorted set: all of them, or `most` random ones. A member may be drawn twice.
local function members(key, size, most)
  if size <= most then return redis.call('ZRANGE', key, 0, -1) end
  local found = {}
  for i = 1, most do
    local at = math.random(0, size - 1)
    found[i] = redis.call('ZRANGE', key, at, at)[1]
  end
  return found
end

-- Returns the mean size of the records of these jobs; nil: none is left.
local function mean_of(ids)
  local bytes, found = 0, 0
  for _, id in ipairs(ids) do
    local size = redis.call('STRLEN', tag .. 'job:' .. id)
    if size > 0 then bytes, found = bytes + size, found + 1 end
  end
  return found > 0 and bytes / found or nil
end

-- Returns the mean size of the ready jobs of a name. If the name has many lanes, reads some of them and weights each
-- lane by its number of jobs.
local function mean_of_lanes(name, draws)
  local lanes_key = tag .. 'lanes:' .. name
  local found = members(lanes_key, redis.call('ZCARD', lanes_key), MAX_LANES)
  local jobs_of, jobs = {}, 0
  for i, lane in ipairs(found) do
    jobs_of[i] = redis.call('ZCARD', tag .. 'ready:' .. lane)
    jobs = jobs + jobs_of[i]
  end
  local bytes, measured = 0, 0
  for i, lane in ipairs(found) do
    if jobs_of[i] > 0 then
      local mean = mean_of(members(tag .. 'ready:' .. lane, jobs_of[i], math.ceil(draws * jobs_of[i] / jobs)))
      if mean then bytes, measured = bytes + mean * jobs_of[i], measured + jobs_of[i] end
    end
  end
  return measured > 0 and bytes / measured or nil
end

local means = {}
for i = FIRST, #ARGV, WIDTH do
  local which, draws = ARGV[i + 1], tonumber(ARGV[i + 2])
  local mean = ARGV[i] == 'name' and mean_of_lanes(which, draws)
    or ARGV[i] == 'index' and mean_of(members(tag .. which, redis.call('ZCARD', tag .. which), draws)) or 0
  means[#means + 1] = string.format('%.3f', mean)
end
return {'ok', means}
