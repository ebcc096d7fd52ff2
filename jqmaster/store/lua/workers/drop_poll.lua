#!lua flags=allow-oom
-- Ends a poll whose client is gone. No more jobs are claimed for it, and the next poll gets the jobs that were already
-- claimed for this poll.
-- KEYS worker:hash
-- ARGV poll_id(empty: the newest poll)
-- REPLY ok | over | unknown
-- CHECKS FIRST that the worker is registered, and that the poll is its newest
local worker_key = KEYS[1]
local poll_id = ARGV[1]

local newest = redis.call('HGET', worker_key, 'poll_id')
if not newest then return {'unknown'} end
if poll_id ~= '' and newest ~= poll_id then return {'over'} end
redis.call('HSET', worker_key, 'poll_until_ms', 0, 'poll_is_told', 0)
return {'ok'}
