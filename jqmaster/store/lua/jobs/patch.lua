#!lua
-- Changes priority, time, retries or timeout of a job that waits; its lane may be another one after that.
-- KEYS job:string scheduled:zset retrying:zset rules:hash
-- ARGV now_ms tag job_id wake_channel(empty: nobody to wake) edition lanes(as lanes_defined takes them) priority(empty: as it is) run_at_ms(empty) max_retry(empty) timeout_ms(empty) action_id(that counts it; empty: none)
-- REPLY ok | stale_rules | unknown | state:state
-- CHECKS FIRST the edition of the rules, the state
-- include lib/time.lua
-- include lib/record.lua
-- include lib/lanes.lua
-- include lib/touched.lua
local job_key, scheduled_key, retrying_key, rules_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local now_ms, id, wake_channel, edition, definitions = time_ms(ARGV[1]), ARGV[3], ARGV[4], ARGV[5], lanes_defined(ARGV[6])
local priority, run_at_ms, max_retry, timeout_ms, action_id = tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10]), ARGV[11]
tag = ARGV[2]

if (redis.call('HGET', rules_key, 'edition') or '0') ~= edition then return {'stale_rules'} end
local head = head_of(job_key)
if head == '' then return {'unknown'} end
local state = string.byte(head, 2)
if state ~= STATE.scheduled and state ~= STATE.ready and state ~= STATE.retrying then return {'state', state} end
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
local old_lane, old_own = home_of(head)
local lane, own = home_defined(definitions, 1, tonumber(edition))
if state == STATE.ready and (target ~= state or lane.id ~= old_lane.id) then lane_remove(old_lane, id)
elseif target ~= state then redis.call('ZREM', state == STATE.scheduled and scheduled_key or retrying_key, id) end
write_home(job_key, head, lane, definitions[1].bytes)
lane_counts(old_lane, old_own, -1, -1)
lane_counts(lane, own, 1, 1)
if target == STATE.ready then
  -- A changed priority moves it in its lane, and with it maybe the lane.
  touched(lane).has_moved = true
  lane_add(lane, priority, id)
else
  redis.call('ZADD', target == STATE.scheduled and scheduled_key or retrying_key, due_at_ms, id)
end
write_lanes(nil)
count_touched(action_id, id, false)
if wake_channel ~= '' then
  if target == STATE.ready or has_opened then redis.call('PUBLISH', wake_channel, 'ready') end
  if target ~= STATE.ready then redis.call('PUBLISH', wake_channel, 'due') end
end
return {'ok'}
