#!lua flags=allow-oom
-- Ends attempts whose lease or time is over, as the leader decided, unless they were renewed or settled meanwhile.
-- KEYS epoch:string running:zset names:set results:zset
-- ARGV now_ms epoch result_ttl_ms job_prefix history_prefix ready_prefix claims_prefix result_prefix finished_channel [+ id token_bytes target_state index_key delay_ms cause is_counted is_loss history_entry(empty: none) result]
-- REPLY ok:[1 reclaimed, 0 renewed or settled meanwhile] | stale_epoch
-- CHECKS FIRST epoch, then the lease, state and token of each
-- include lib/time.lua
-- include lib/record.lua
-- include lib/epoch.lua
-- include lib/settle.lua
local epoch_key, running_key, names_key, results_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local now_ms, epoch, result_ttl_ms = time_ms(ARGV[1]), ARGV[2], tonumber(ARGV[3])
local job_prefix, history_prefix, ready_prefix, claims_prefix, result_prefix = ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8]
local finished_channel = ARGV[9]
local FIRST, WIDTH = 10, 10

if not leads(epoch_key, epoch) then return {'stale_epoch'} end
local batch = new_batch(now_ms, job_prefix, history_prefix, ready_prefix)
local reclaimed = {}
for i = FIRST, #ARGV, WIDTH do
  local id, target = ARGV[i], tonumber(ARGV[i + 2])
  local lease_end = redis.call('ZSCORE', running_key, id)
  local head = head_of(job_prefix .. id)
  if lease_end and tonumber(lease_end) <= now_ms and holds(head, ARGV[i + 1]) then
    end_attempt(batch, id, head, target, ARGV[i + 3], now_ms + tonumber(ARGV[i + 4]), tonumber(ARGV[i + 5]), tonumber(ARGV[i + 6]), tonumber(ARGV[i + 7]), ARGV[i + 8])
    -- The token dies with the lease: what its holder still reports is stale.
    redis.call('SETRANGE', job_prefix .. id, 56, NO_ID)
    if target == STATE.failed and string.byte(head, 3) % 2 == 1 then
      redis.call('SET', result_prefix .. id, ARGV[i + 9])
      redis.call('ZADD', results_key, now_ms + result_ttl_ms, id)
    end
    reclaimed[#reclaimed + 1] = 1
  else
    reclaimed[#reclaimed + 1] = 0
  end
end
write_batch(batch, running_key, claims_prefix, names_key, '', finished_channel)
return {'ok', reclaimed}
