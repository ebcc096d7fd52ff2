#!lua flags=allow-oom
-- Ends a job that waits or runs as canceled. The running attempt's token is void at once; its worker is told afterwards.
-- KEYS job:string scheduled:zset retrying:zset running:zset canceled:zset history:list
-- ARGV now_ms job_id ready_prefix claims_prefix wake_channel(empty: nobody to wake) finished_channel history_entry(for a running job)
-- REPLY ok:worker_id_bytes(empty: it did not run),token_bytes | unknown | state:state
-- CHECKS FIRST the state
-- include lib/time.lua
-- include lib/record.lua
-- include lib/settle.lua
local job_key, scheduled_key, retrying_key, running_key, canceled_key, history_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local now_ms, id, ready_prefix, claims_prefix, wake_channel, finished_channel, entry = time_ms(ARGV[1]), ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]

local head = head_of(job_key)
if head == '' then return {'unknown'} end
local state, flags = string.byte(head, 2), string.byte(head, 3)
if state == STATE.canceled then
  redis.call('SETRANGE', job_key, 0, '\1')
  return {'ok', '', ''}
end
local was_running = state == STATE.running
if state == STATE.scheduled then redis.call('ZREM', scheduled_key, id)
elseif state == STATE.retrying then redis.call('ZREM', retrying_key, id)
elseif state == STATE.ready then redis.call('ZREM', ready_prefix .. name_of(head), id)
elseif was_running then
  redis.call('ZREM', running_key, id)
  redis.call('SREM', claims_prefix .. uuid_text(string.sub(head, 73, 88)), id)
  redis.pcall('RPUSH', history_key, struct.pack('>i8', now_ms) .. entry)
else return {'state', state} end
redis.call('SETRANGE', job_key, 1, string.char(STATE.canceled, flags, 5))
redis.call('SETRANGE', job_key, 32, struct.pack('>i8', now_ms))
redis.call('ZADD', canceled_key, now_ms, id)
if has_flag(flags, FLAG_WATCHED) then redis.call('PUBLISH', finished_channel, id) end
if not was_running then return {'ok', '', ''} end
if wake_channel ~= '' then redis.call('PUBLISH', wake_channel, 'freed:' .. uuid_text(string.sub(head, 73, 88)) .. ':1') end
return {'ok', string.sub(head, 73, 88), string.sub(head, 57, 72)}
