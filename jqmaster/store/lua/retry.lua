#!lua
-- Makes a finished job ready again by hand, with all its retries; its history stays.
-- KEYS job:string succeeded:zset failed:zset canceled:zset skipped:zset result:string results:zset names:set expiring:zset
-- ARGV job_id ready_prefix wake_channel(empty: nobody to wake)
-- REPLY ok | unknown | state:state
-- CHECKS FIRST the state
-- include lib/record.lua
local job_key, result_key, results_key, names_key, expiring_key = KEYS[1], KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local id, ready_prefix, wake_channel = ARGV[1], ARGV[2], ARGV[3]
local index_of_state = {[STATE.succeeded] = KEYS[2], [STATE.failed] = KEYS[3], [STATE.canceled] = KEYS[4], [STATE.skipped] = KEYS[5]}

local head = head_of(job_key)
if head == '' then return {'unknown'} end
local state = string.byte(head, 2)
local index_key = index_of_state[state]
if not index_key then return {'state', state} end
redis.call('ZREM', index_key, id)
redis.call('SETRANGE', job_key, 1, string.char(STATE.ready, string.byte(head, 3), 0) .. string.sub(head, 5, 8)
  .. struct.pack('>I4I2I2i8i8i8', 0, 0, 0, 0, 0, 0))
-- No token and no expiry outlive the end: an old holder is stale, and the operator wants it to run.
redis.call('SETRANGE', job_key, 56, NO_ID)
redis.call('SETRANGE', job_key, 112, struct.pack('>i8', 0))
redis.call('UNLINK', result_key)
redis.call('ZREM', results_key, id)
redis.call('ZREM', expiring_key, id)
local name = name_of(head)
redis.call('ZADD', ready_prefix .. name, struct.unpack('>i4', head, 89), id)
redis.call('SADD', names_key, name)
if wake_channel ~= '' then redis.call('PUBLISH', wake_channel, 'ready') end
return {'ok'}
