#!lua flags=allow-oom
-- Ends running attempts as succeeded, each only for the holder of its token. A repeat of an accepted one is accepted.
-- KEYS running:zset claims:set succeeded:zset results:zset
-- ARGV now_ms tag worker_id_bytes result_ttl_ms wake_channel(empty: nobody to wake) finished_channel [+ id token_bytes result]
-- REPLY ok:[1 accepted, 0 stale],1 if jobs may start that could not before,[name run_ms](of each that ended just now)
-- CHECKS FIRST state, token and worker of each
-- include lib/time.lua
-- include lib/record.lua
-- include lib/lanes.lua
-- include lib/settle.lua
local running_key, claims_key, succeeded_key, results_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local now_ms, worker_id_bytes, result_ttl_ms = time_ms(ARGV[1]), ARGV[3], tonumber(ARGV[4])
tag = ARGV[2]
local wake_channel, finished_channel = ARGV[5], ARGV[6]
local FIRST, WIDTH = 7, 3

local accepted, ended, finished_at, results, watched, runs = {}, {}, {}, {}, {}, {}
local now_bytes, now_text = struct.pack('>i8', now_ms), string.format('%.0f', now_ms)
for i = FIRST, #ARGV, WIDTH do
  local id = ARGV[i]
  local key = tag .. 'job:' .. id
  local head = head_of(key)
  local state = string.byte(head, 2)
  local is_ours = #head >= HEAD_LENGTH and string.sub(head, 57, 72) == ARGV[i + 1] and string.sub(head, 73, 88) == worker_id_bytes
  if is_ours and state == STATE.running then
    local flags = string.byte(head, 3)
    redis.call('SETRANGE', key, 1, string.char(STATE.succeeded, flags, 0) .. string.sub(head, 5, 32) .. now_bytes)
    ended[#ended + 1] = id
    add_pair(finished_at, now_text, id)
    add_pair(runs, name_of(head), now_ms - int64(head, 25))
    local lane, own = home_of(head)
    lane_free(lane, own, id)
    lane_counts(lane, own, -1, 0)
    if flags % 2 == 1 then
      redis.call('SET', tag .. 'result:' .. id, ARGV[i + 2])
      add_pair(results, now_ms + result_ttl_ms, id)
    end
    if has_flag(flags, FLAG_WATCHED) then watched[#watched + 1] = id end
    accepted[#accepted + 1] = 1
  else
    local is_repeat = is_ours and state == STATE.succeeded
    accepted[#accepted + 1] = is_repeat and 1 or 0
    -- See enqueue.lua: a repeat writes, or WAIT would lie.
    if is_repeat then redis.call('SETRANGE', key, 0, string.char(VERSION)) end
  end
end
each('ZREM', running_key, ended)
each('SREM', claims_key, ended)
add_all(succeeded_key, finished_at)
add_all(results_key, results)
write_lanes(nil)
if #watched > 0 then redis.call('PUBLISH', finished_channel, table.concat(watched, ',')) end
if wake_channel ~= '' and #ended > 0 then
  redis.call('PUBLISH', wake_channel, 'freed:' .. uuid_text(worker_id_bytes) .. ':' .. #ended)
  if has_opened then redis.call('PUBLISH', wake_channel, 'ready') end
end
return {'ok', accepted, has_opened and 1 or 0, runs}
