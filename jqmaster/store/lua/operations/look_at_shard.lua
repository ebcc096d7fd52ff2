#!lua flags=no-writes
-- Reads whether the duties of the leader have work: entries that are due by time, and keys that exist only while
-- something waits.
-- KEYS epoch:string rules:hash workers:zset ready_counts:hash [+ due:zset waiting:set]
-- ARGV now_ms epoch many(maximum number of names whose counts are read; if more names have counts, jobs count as
--   ready) due_keys(how many of the further keys are read by time; the others are only looked for)
-- REPLY ok:now_ms,[first score of each due key(-1: it is empty)],[number of its members],[1 for each waiting key
--   that exists],1 if jobs are ready,number of workers,ms since the longest silent worker was heard (-1: there is
--   none),version,edition,settled(editions of the constraints) | stale_epoch
-- CHECKS FIRST epoch
-- include lib/clock.lua
-- include lib/leadership.lua
-- include lib/reading.lua
local epoch_key, rules_key, workers_key, counts_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local now_ms, epoch, many, due_keys = clock.now_ms(ARGV[1]), ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local FIRST_DUE = 5

if not leadership.holds(epoch_key, epoch) then return {'stale_epoch'} end

-- A key of a wrong type does not hide the others: its duty finds it due, and reports it.
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
for n = 1, due_keys do firsts[n], counts[n] = first_of(KEYS[FIRST_DUE + n - 1]) end
for n = FIRST_DUE + due_keys, #KEYS do waiting[#waiting + 1] = redis.call('EXISTS', KEYS[n]) end
local heard_ms, workers = first_of(workers_key)
local silent_ms = heard_ms < 0 and -1 or math.max(0, now_ms - heard_ms)
local editions = reading.try('HMGET', rules_key, 'version', 'edition', 'settled') or {}
return {'ok', now_ms, firsts, counts, waiting, has_ready(), workers, silent_ms, tonumber(editions[1] or 0),
  tonumber(editions[2] or 0), tonumber(editions[3] or 0)}
