#!lua flags=allow-oom
-- Removes a job that does not run, with everything that belongs to it; also one that was set aside as damaged.
-- KEYS job:string history:list result:string damaged:set results:zset scheduled:zset retrying:zset expiring:zset succeeded:zset failed:zset canceled:zset skipped:zset
-- ARGV job_id ready_prefix
-- REPLY ok | unknown | state:state
-- CHECKS FIRST the state, unless it was set aside
-- include lib/record.lua
local job_key, history_key, result_key, damaged_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local FIRST_INDEX = 5
local id, ready_prefix = ARGV[1], ARGV[2]

local head = head_of(job_key)
local state = string.byte(head, 2)
if redis.call('SISMEMBER', damaged_key, id) == 0 then
  if head == '' then return {'unknown'} end
  if state == STATE.running then return {'state', state} end
end
if state == STATE.ready then redis.call('ZREM', ready_prefix .. name_of(head), id) end
for i = FIRST_INDEX, #KEYS do redis.call('ZREM', KEYS[i], id) end
redis.call('SREM', damaged_key, id)
redis.call('UNLINK', job_key, history_key, result_key)
return {'ok'}
