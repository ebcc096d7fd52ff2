#!lua flags=allow-oom
-- Ends a poll whose client is gone. No more jobs are claimed for this poll. The next poll gets the jobs that were
-- already claimed for it. If the client has repeated the poll in a newer call, the poll continues.
-- KEYS worker:hash
-- ARGV poll_id(empty: the newest poll) call_id(of the call that ends; empty: any call)
-- REPLY ok | over | unknown
-- CHECKS FIRST that the worker is registered;
--   that the poll is the worker's newest;
--   that no newer call has repeated the poll
local worker_key = KEYS[1]
local poll_id, call_id = ARGV[1], ARGV[2]

local worker = redis.call('HMGET', worker_key, 'poll_id', 'poll_call')
if not worker[1] then return {'unknown'} end
if poll_id ~= '' and worker[1] ~= poll_id then return {'over'} end
if call_id ~= '' and worker[2] and worker[2] ~= call_id then return {'over'} end
redis.call('HSET', worker_key, 'poll_until_ms', 0, 'poll_is_told', 0)
return {'ok'}
