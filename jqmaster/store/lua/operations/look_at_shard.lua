#!lua flags=no-writes
-- Reads whether the duties of the leader have work. Some of its keys are due keys, which have entries that become due.
-- The others are waiting keys, which exist only while something waits. If none of these keys exists, the three lists of
-- the reply are empty.
-- KEYS epoch:string rules:hash workers:zset ready_counts:hash [+ due:zset waiting:set]
-- ARGV now_ms epoch
--   many(maximum number of names whose counts are read; with more names, the reply says that jobs are ready)
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

local function editions()
  local found = reading.try('HMGET', rules_key, 'version', 'edition', 'settled') or {}
  return tonumber(found[1] or 0), tonumber(found[2] or 0), tonumber(found[3] or 0)
end

if redis.call('EXISTS', unpack(KEYS, FIRST_LOOKED_FOR)) == 0 then
  return {'ok', now_ms, {}, {}, {}, 0, 0, -1, editions()}
end

-- Returns whether jobs may be ready. A key of another type counts as ready jobs, so that the other keys are still read.
-- The duty of that key finds and reports the fault.
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

local firsts, counts, waiting = {}, {}, {}
for n = 1, due_keys do firsts[n], counts[n] = -1, 0 end
for n = 1, #KEYS - FIRST_DUE - due_keys + 1 do waiting[n] = 0 end
local last_due = FIRST_DUE + due_keys - 1
reading.each_existing(KEYS, FIRST_DUE, last_due, function(at)
  local n = at - FIRST_DUE + 1
  firsts[n], counts[n] = first_of(KEYS[at])
end)
reading.each_existing(KEYS, last_due + 1, #KEYS, function(at) waiting[at - last_due] = 1 end)
local heard_ms, workers = first_of(workers_key)
local silent_ms = heard_ms < 0 and -1 or math.max(0, now_ms - heard_ms)
return {'ok', now_ms, firsts, counts, waiting, has_ready(), workers, silent_ms, editions()}
