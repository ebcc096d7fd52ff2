#!lua
-- Changes priority, time, retries or timeout of a job that waits.
-- KEYS job:string scheduled:zset retrying:zset names:set
-- ARGV now_ms job_id ready_prefix wake_channel(empty: nobody to wake) priority(empty: as it is) run_at_ms(empty) max_retry(empty) timeout_ms(empty)
-- REPLY ok | unknown | state:state
-- CHECKS FIRST the state
-- include lib/time.lua
-- include lib/record.lua
local job_key, scheduled_key, retrying_key, names_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local now_ms, id, ready_prefix, wake_channel = time_ms(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]
local priority, run_at_ms, max_retry, timeout_ms = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])

local head = head_of(job_key)
if head == '' then return {'unknown'} end
local state = string.byte(head, 2)
if state ~= STATE.scheduled and state ~= STATE.ready and state ~= STATE.retrying then return {'state', state} end
local lane_key = ready_prefix .. name_of(head)
priority = priority or struct.unpack('>i4', head, 89)
redis.call('SETRANGE', job_key, 88, struct.pack('>i4I4i8', priority, max_retry or struct.unpack('>I4', head, 93), timeout_ms or int64(head, 97)))
local target, due_at_ms = state, int64(head, 17)
if run_at_ms then
  due_at_ms = run_at_ms
  if run_at_ms <= now_ms then target = STATE.ready
  elseif state == STATE.ready then target = STATE.scheduled end
end
redis.call('SETRANGE', job_key, 1, string.char(target))
redis.call('SETRANGE', job_key, 16, struct.pack('>i8', due_at_ms))
if target ~= state then redis.call('ZREM', state == STATE.scheduled and scheduled_key or state == STATE.retrying and retrying_key or lane_key, id) end
if target == STATE.ready then
  redis.call('ZADD', lane_key, priority, id)
  redis.call('SADD', names_key, name_of(head))
  if wake_channel ~= '' then redis.call('PUBLISH', wake_channel, 'ready') end
else
  redis.call('ZADD', target == STATE.scheduled and scheduled_key or retrying_key, due_at_ms, id)
  if wake_channel ~= '' then redis.call('PUBLISH', wake_channel, 'due') end
end
return {'ok'}
