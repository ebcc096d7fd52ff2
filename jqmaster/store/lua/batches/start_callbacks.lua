#!lua
-- Enqueues the jobs of due callbacks. Writes each job and its entry in the batch in one step, so that each callback
-- starts once. A full backlog of a constraint does not stop a callback.
-- KEYS epoch:string rules:hash scheduled:zset expiring:zset
-- ARGV now_ms tag epoch
--   wake_channel(empty: wake nobody)
--   edition
--   lanes(format: lib/lanes/homes.lua)
--   mark(expected mark of the data; empty: do not check)
--   [+ batch_id callback job_id
--      terms(as in jobs/enqueue/enqueue.lua)
--      digest rest_of_record]
-- REPLY ok:[1: enqueued, 0: not due](for each callback) | stale_epoch | stale_constraints | other_data
-- CHECKS FIRST that the epoch is current;
--   that the mark of the data matches;
--   that the edition of the constraints is current;
--   that each callback is due
-- include lib/clock.lua
-- include lib/leadership.lua
-- include lib/lanes/lane_writes.lua
-- include lib/jobs/new_jobs.lua
local epoch_key, rules_key, scheduled_key, expiring_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local now_ms, epoch, wake_channel = clock.now_ms(ARGV[1]), ARGV[3], ARGV[4]
local tag, edition, mark = ARGV[2], ARGV[5], ARGV[7]
local FIRST, WIDTH = 8, 6

if not leadership.holds(epoch_key, epoch) then return {'stale_epoch'} end
local held = redis.call('HMGET', rules_key, 'edition', 'mark')
if mark ~= '' and held[2] ~= mark then return {'other_data'} end
if (held[1] or '0') ~= edition then return {'stale_constraints'} end

local enqueued = {}
for i = FIRST, #ARGV, WIDTH do
  local batch_id, callback, job_id, terms, digest, rest = unpack(ARGV, i, i + WIDTH - 1)
  local batch_key = tag .. 'batch:' .. batch_id
  local is_due = redis.call('HGET', batch_key, callback) == 'due'
  if is_due then
    redis.call('HSET', batch_key, callback, 'enqueued')
    if redis.call('EXISTS', tag .. 'job:' .. job_id) == 0 then
      new_jobs.add(job_id, new_jobs.kind_of(terms, now_ms), digest, rest)
    end
  end
  enqueued[#enqueued + 1] = is_due and 1 or 0
end
new_jobs.write(scheduled_key, expiring_key)
lane_writes.write(nil)
new_jobs.tell(wake_channel)
return {'ok', enqueued}
