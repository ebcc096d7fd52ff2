#!lua flags=allow-oom
-- Ends running attempts that did not succeed, if the caller holds their tokens. The master has decided the outcomes
-- from the worker's report.
-- KEYS running:zset results:zset worker:hash
-- ARGV now_ms tag worker_id_bytes result_ttl_ms
--   wake_channel(empty: wake nobody)
--   finished_channel
--   used(MessagePack: by job ID, a list of two: time of the attempt's last call in ms, or 0;
--       thousandths used, by unit. Empty: no report)
--   [+ id token_bytes target_state
--      index_key(index for the target state; empty: `ready`, which has none)
--      delay_ms(time until the job is due again)
--      cause
--      is_counted(1: the attempt counts as a failure)
--      history_entry(empty: none)
--      result
--      held_gate(gate that the worker asked to keep closed; empty: none)
--      hold_ms]
-- REPLY ok:
--     [1: accepted, 0: stale],
--     1 if more jobs can start now than before this call,
--     [run_ms(-1: the attempt did not end in this call)]
--   | unknown
-- CHECKS FIRST that each job is running under its token at this worker;
--   if no job is, that the worker is registered
-- include lib/clock.lua
-- include lib/jobs/record.lua
-- include lib/constraints/gates.lua
-- include lib/constraints/charges.lua
-- include lib/lanes/lanes.lua
-- include lib/jobs/attempts.lua
local running_key, results_key, worker_key = KEYS[1], KEYS[2], KEYS[3]
local now_ms, worker_id_bytes, result_ttl_ms = clock.now_ms(ARGV[1]), ARGV[3], tonumber(ARGV[4])
local tag = ARGV[2]
local wake_channel, finished_channel, packed_used = ARGV[5], ARGV[6], ARGV[7]
local FIRST, WIDTH = 8, 11

local used = packed_used ~= '' and cmsgpack.unpack(packed_used) or nil
local batch = attempts.new_batch(now_ms)
local accepted, runs, known = {}, {}, 0
for i = FIRST, #ARGV, WIDTH do
  local id, token_bytes, target_state, index_key, delay_ms, cause, is_counted, history_entry, result, held_gate,
    hold_ms = unpack(ARGV, i, i + WIDTH - 1)
  local target = tonumber(target_state)
  local head = record.read_head(tag .. 'job:' .. id)
  runs[#runs + 1] = -1
  if attempts.is_held(head, token_bytes) and record.worker_of(head) == worker_id_bytes then
    local goes_on = attempts.finish(batch, id, head, target, index_key, now_ms + tonumber(delay_ms), tonumber(cause),
      tonumber(is_counted), 0, history_entry)
    -- Do not settle the charge of an attempt that continues with its callbacks, because it may still use more.
    if used and used[id] and not goes_on then
      local lane, own = lanes.home_of(head)
      charges.settle_at(id, token_bytes, used[id], now_ms, lane.shared, own or lane.keyed)
    end
    attempts.keep_failure(id, head, target, result, results_key, now_ms + result_ttl_ms)
    if held_gate ~= '' then gates.hold(held_gate, now_ms + tonumber(hold_ms)) end
    runs[#runs] = math.max(0, now_ms - record.int64(head, layout.started_at_ms.at))
    accepted[#accepted + 1] = 1
    known = known + 1
  else
    -- A report with the token of a settled attempt is a repeat. The record keeps the token until the next claim, but
    -- reclaiming voids it.
    local state = record.state_of(head)
    local is_repeat = #head >= layout.head.length and record.token_of(head) == token_bytes
      and (state == target
        or state ~= layout.STATE.running and state ~= layout.STATE.canceled and state ~= layout.STATE.succeeded)
    accepted[#accepted + 1] = is_repeat and 1 or 0
    known = known + accepted[#accepted]
    if is_repeat then record.write_again(tag .. 'job:' .. id, head) end
  end
end
-- If all reports are stale, check whether the worker is registered. A worker with a valid token certainly is.
if known == 0 and redis.call('EXISTS', worker_key) == 0 then return {'unknown'} end
return {'ok', accepted, attempts.write(batch, running_key, wake_channel, finished_channel), runs}
