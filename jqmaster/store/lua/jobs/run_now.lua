#!lua
-- Makes a job ready that waits for a time.
-- KEYS job:string scheduled:zset retrying:zset
-- ARGV tag job_id wake_channel(empty: nobody to wake) action_id(that counts it; empty: none)
-- REPLY ok | unknown | state:state
-- CHECKS FIRST the state
-- include lib/record.lua
-- include lib/lanes.lua
-- include lib/touched.lua
local job_key, scheduled_key, retrying_key = KEYS[1], KEYS[2], KEYS[3]
local id, wake_channel, action_id = ARGV[2], ARGV[3], ARGV[4]
tag = ARGV[1]

local head = head_of(job_key)
if head == '' then return {'unknown'} end
local state = string.byte(head, 2)
if state == STATE.ready then
  redis.call('SETRANGE', job_key, 0, string.sub(head, 1, 1))
  return {'ok'}
end
if state ~= STATE.scheduled and state ~= STATE.retrying then return {'state', state} end
redis.call('ZREM', state == STATE.scheduled and scheduled_key or retrying_key, id)
redis.call('SETRANGE', job_key, 1, string.char(STATE.ready))
redis.call('SETRANGE', job_key, 16, struct.pack('>i8', 0))
lane_add(lane_of(head), struct.unpack('>i4', head, 89), id)
write_lanes(nil)
count_touched(action_id, id, false)
if wake_channel ~= '' then redis.call('PUBLISH', wake_channel, 'ready') end
return {'ok'}
