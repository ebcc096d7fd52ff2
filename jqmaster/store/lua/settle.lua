#!lua flags=allow-oom
-- Ends running attempts that did not succeed, as decided from what their worker reported, each only for the holder of its token.
-- KEYS running:zset names:set results:zset
-- ARGV now_ms worker_id_bytes result_ttl_ms job_prefix history_prefix ready_prefix claims_prefix result_prefix wake_channel(empty: nobody to wake) finished_channel [+ id token_bytes target_state index_key delay_ms cause is_counted history_entry(empty: none) result]
-- REPLY ok:[1 accepted, 0 stale]
-- CHECKS FIRST state, token and worker of each
-- include lib/time.lua
-- include lib/record.lua
-- include lib/settle.lua
local running_key, names_key, results_key = KEYS[1], KEYS[2], KEYS[3]
local now_ms, worker_id_bytes, result_ttl_ms = time_ms(ARGV[1]), ARGV[2], tonumber(ARGV[3])
local job_prefix, history_prefix, ready_prefix, claims_prefix, result_prefix = ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8]
local wake_channel, finished_channel = ARGV[9], ARGV[10]
local FIRST, WIDTH = 11, 9

local batch = new_batch(now_ms, job_prefix, history_prefix, ready_prefix)
local accepted = {}
for i = FIRST, #ARGV, WIDTH do
  local id, token_bytes, target = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2])
  local head = head_of(job_prefix .. id)
  if holds(head, token_bytes) and string.sub(head, 73, 88) == worker_id_bytes then
    end_attempt(batch, id, head, target, ARGV[i + 3], now_ms + tonumber(ARGV[i + 4]), tonumber(ARGV[i + 5]), tonumber(ARGV[i + 6]), 0, ARGV[i + 7])
    if target == STATE.failed and string.byte(head, 3) % 2 == 1 then
      redis.call('SET', result_prefix .. id, ARGV[i + 8])
      redis.call('ZADD', results_key, now_ms + result_ttl_ms, id)
    end
    accepted[#accepted + 1] = 1
  else
    -- A settled attempt's token stays until the next claim, so that its holder may repeat itself; a reclaimed one's does not.
    local state = string.byte(head, 2)
    local is_repeat = #head >= 128 and string.sub(head, 57, 72) == token_bytes
      and (state == target or state ~= STATE.running and state ~= STATE.canceled and state ~= STATE.succeeded)
    accepted[#accepted + 1] = is_repeat and 1 or 0
    if is_repeat then redis.call('SETRANGE', job_prefix .. id, 0, '\1') end
  end
end
write_batch(batch, running_key, claims_prefix, names_key, wake_channel, finished_channel)
return {'ok', accepted}
