#!lua flags=allow-oom
-- Ends attempts whose lease or run time is over. The leader has decided the outcomes. Skips attempts that were renewed
-- or settled meanwhile.
-- KEYS epoch:string running:zset results:zset suspects:set
-- ARGV now_ms tag epoch result_ttl_ms finished_channel
--   [+ id token_bytes target_state
--      index_key(index for the target state; empty: `ready`, which has none)
--      delay_ms(time until the job is due again)
--      cause
--      is_counted(1: the attempt counts as a failure)
--      is_loss(1: the worker was lost)
--      history_entry(empty: none)
--      result]
-- REPLY ok:[1: reclaimed, 0: renewed or settled meanwhile] | stale_epoch
-- CHECKS FIRST that the epoch is current, then the lease, the state and the token of each attempt
-- include lib/clock.lua
-- include lib/leadership.lua
-- include lib/jobs/record.lua
-- include lib/lists.lua
-- include lib/jobs/attempts.lua
local epoch_key, running_key, results_key, suspects_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local now_ms, epoch, result_ttl_ms, finished_channel = clock.now_ms(ARGV[1]), ARGV[3], tonumber(ARGV[4]), ARGV[5]
local tag = ARGV[2]
local FIRST, WIDTH = 6, 10

if not leadership.holds(epoch_key, epoch) then return {'stale_epoch'} end
local batch = attempts.new_batch(now_ms)
local reclaimed, suspects = {}, {}
for i = FIRST, #ARGV, WIDTH do
  local id, token_bytes, target_state, index_key, delay_ms, cause, is_counted, is_loss, history_entry, result =
    unpack(ARGV, i, i + WIDTH - 1)
  local target = tonumber(target_state)
  local lease_end = redis.call('ZSCORE', running_key, id)
  local head = record.read_head(tag .. 'job:' .. id)
  if lease_end and tonumber(lease_end) <= now_ms and attempts.is_held(head, token_bytes) then
    attempts.finish(batch, id, head, target, index_key, now_ms + tonumber(delay_ms), tonumber(cause),
      tonumber(is_counted), tonumber(is_loss), history_entry)
    -- Void the token, so that later reports of the former holder are stale.
    record.void_token(tag .. 'job:' .. id)
    attempts.keep_failure(id, head, target, result, results_key, now_ms + result_ttl_ms)
    -- A lost job that waits for its retry becomes a suspect: it runs only on a worker that holds no other job.
    if target == layout.STATE.retrying and is_loss == '1' then suspects[#suspects + 1] = id end
    reclaimed[#reclaimed + 1] = 1
  else
    reclaimed[#reclaimed + 1] = 0
  end
end
lists.call('SADD', suspects_key, suspects)
attempts.write(batch, running_key, '', finished_channel)
return {'ok', reclaimed}
