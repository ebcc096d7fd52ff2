#!lua flags=allow-oom
-- Ends attempts if their challenges were not answered in time. The leader has decided the outcomes. Skips attempts that
-- were answered or ended meanwhile. A job whose callbacks have arrived waits for a worker instead.
-- KEYS epoch:string running:zset awaiting:zset results:zset damaged:set
-- ARGV now_ms tag epoch result_ttl_ms finished_channel
--   [+ id
--      target_state(empty: its record cannot be read)
--      index_key(index for the target state; empty: `ready`, which has none)
--      delay_ms(time until the job is due again)
--      cause
--      is_counted(1: the attempt counts as a failure)
--      history_entry result]
-- REPLY ok:[1: expired, 0: answered or ended meanwhile] | stale_epoch
-- CHECKS FIRST that the epoch is current, then the state, the deadline and the challenge of each attempt
-- include lib/clock.lua
-- include lib/leadership.lua
-- include lib/jobs/record.lua
-- include lib/lists.lua
-- include lib/lanes/lanes.lua
-- include lib/challenges/challenges.lua
-- include lib/jobs/attempts.lua
local epoch_key, running_key, awaiting_key, results_key, damaged_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local now_ms, epoch, result_ttl_ms, finished_channel = clock.now_ms(ARGV[1]), ARGV[3], tonumber(ARGV[4]), ARGV[5]
local tag = ARGV[2]
local FIRST, WIDTH = 6, 8

if not leadership.holds(epoch_key, epoch) then return {'stale_epoch'} end
local batch = attempts.new_batch(now_ms)
local expired, over, damaged = {}, {}, {}
for i = FIRST, #ARGV, WIDTH do
  local id, target_state, index_key, delay_ms, cause, is_counted, history_entry, result =
    unpack(ARGV, i, i + WIDTH - 1)
  local due_ms, target, word = tonumber(redis.call('ZSCORE', awaiting_key, id)), tonumber(target_state), 0
  local head = record.read_head(tag .. 'job:' .. id)
  if due_ms and due_ms <= now_ms then
    if target_state == '' then
      over[#over + 1], damaged[#damaged + 1] = id, id
      local lane, own = lanes.home_of_damaged(tag .. 'job:' .. id)
      if lane then
        lanes.free(lane, own, id)
        lanes.count(lane, own, -1, 0)
      end
    elseif record.state_of(head) ~= layout.STATE.awaiting_callback then
      over[#over + 1] = id
    else
      local challenge, list = challenges.open_one(id, head)
      if challenge and challenges.is_answered(challenge) then
        record.set_int64(tag .. 'job:' .. id, layout.due_at_ms.offset, 0)
        challenges.offer(id, head, challenge, now_ms)
        batch.wakes = true
      else
        if challenge then challenges.finish(id, challenge, list, challenges.EXPIRED, head, now_ms) end
        attempts.finish(batch, id, head, target, index_key, now_ms + tonumber(delay_ms), tonumber(cause),
          tonumber(is_counted), 0, history_entry)
        record.void_token(tag .. 'job:' .. id)
        attempts.keep_failure(id, head, target, result, results_key, now_ms + result_ttl_ms)
        over[#over + 1] = id
        word = 1
      end
    end
  end
  expired[#expired + 1] = word
end
lists.call('ZREM', awaiting_key, over)
lists.call('SADD', damaged_key, damaged)
attempts.write(batch, running_key, '', finished_channel)
return {'ok', expired}
