#!lua flags=no-writes
-- Reads whether the duties of the leader have work. A due key has entries that are due by time. A waiting key exists
-- only while something waits. If none of these keys exists, the three lists of the reply are empty.
-- KEYS epoch:string rules:hash workers:zset ready_counts:hash [+ due:zset waiting:set]
-- ARGV now_ms epoch
--   many(maximum number of names whose counts are read; beyond it, jobs count as ready)
--   due_keys(how many of the keys are due keys; the others are waiting keys)
-- REPLY ok:
--     now_ms,
--     [first score of each due key(-1: it is empty)],
--     [number of its members],
--     [1 if a waiting key exists, otherwise 0],
--     1 if jobs are ready,
--     number of workers,
--     ms since the worker that has been silent longest was heard(-1: no worker),
--     version of the constraints,edition,edition in force
--   | stale_epoch
-- CHECKS FIRST that the epoch is current
-- include lib/clock.lua
-- include lib/leadership.lua
-- include lib/reading.lua
local epoch_key, rules_key, workers_key, counts_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local now_ms, epoch, many, due_keys = clock.now_ms(ARGV[1]), ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local FIRST_LOOKED_FOR, FIRST_DUE = 3, 5

if not leadership.holds(epoch_key, epoch) then return {'stale_epoch'} end

-- Returns how many keys of a range exist. `unpack` cannot fail, because the number of a shard's indexes does not grow.
local function existing(from, to)
  return redis.call('EXISTS', unpack(KEYS, from, to))
end

local function editions()
  local found = reading.try('HMGET', rules_key, 'version', 'edition', 'settled') or {}
  return tonumber(found[1] or 0), tonumber(found[2] or 0), tonumber(found[3] or 0)
end

if existing(FIRST_LOOKED_FOR, #KEYS) == 0 then return {'ok', now_ms, {}, {}, {}, 0, 0, -1, editions()} end

-- Returns whether jobs may be ready. A key of a wrong type counts as ready jobs: the other keys are still read, and the
-- duty of this key finds and reports the fault.
local function has_ready()
  local names = reading.try('HLEN', counts_key) or many + 1
  if names == 0 or names > many then return names > 0 and 1 or 0 end
  for _, count in ipairs(redis.call('HVALS', counts_key)) do
    if (tonumber(count) or 1) > 0 then return 1 end
  end
  return 0
end

-- Returns the lowest score of a sorted set (-1: it is empty), and the number of its members.
local function first_of(key)
  local first = reading.try('ZRANGE', key, 0, 0, 'WITHSCORES')
  if not first then return 0, 1 end
  if not first[2] then return -1, 0 end
  return math.ceil(tonumber(first[2])), redis.call('ZCARD', key)
end

-- For the keys of a range in order, calls `read` with each one that exists, and `skip` for each other one. Checks half
-- of the range at a time, because most keys do not exist.
local function read_each(from, to, read, skip)
  if from > to then return end
  if existing(from, to) == 0 then
    for _ = from, to do skip() end
  elseif from == to then
    read(KEYS[from])
  else
    local middle = math.floor((from + to) / 2)
    read_each(from, middle, read, skip)
    read_each(middle + 1, to, read, skip)
  end
end

local firsts, counts, waiting = {}, {}, {}
local last_due = FIRST_DUE + due_keys - 1
read_each(FIRST_DUE, last_due, function(key) firsts[#firsts + 1], counts[#counts + 1] = first_of(key) end, function()
  firsts[#firsts + 1], counts[#counts + 1] = -1, 0
end)
read_each(last_due + 1, #KEYS, function() waiting[#waiting + 1] = 1 end, function() waiting[#waiting + 1] = 0 end)
local heard_ms, workers = first_of(workers_key)
local silent_ms = heard_ms < 0 and -1 or math.max(0, now_ms - heard_ms)
return {'ok', now_ms, firsts, counts, waiting, has_ready(), workers, silent_ms, editions()}
