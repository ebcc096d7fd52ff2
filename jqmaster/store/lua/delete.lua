#!lua flags=allow-oom
-- Removes a job that does not run, with everything that belongs to it.
-- KEYS job:string history:list result:string results:zset scheduled:zset retrying:zset expiring:zset succeeded:zset failed:zset canceled:zset skipped:zset
-- ARGV job_id ready_prefix
-- REPLY ok | unknown | state:state
-- CHECKS FIRST the state
-- include lib/record.lua
local job_key, history_key, result_key = KEYS[1], KEYS[2], KEYS[3]
local id, ready_prefix = ARGV[1], ARGV[2]

local head = redis.call('GETRANGE', job_key, 0, HEAD_LAST + 201)
if #head < 130 then return {'unknown'} end
local state = string.byte(head, 2)
if state == STATE.running then return {'state', state} end
if state == STATE.ready then redis.call('ZREM', ready_prefix .. name_of(head), id) end
for i = 4, #KEYS do redis.call('ZREM', KEYS[i], id) end
redis.call('UNLINK', job_key, history_key, result_key)
return {'ok'}
