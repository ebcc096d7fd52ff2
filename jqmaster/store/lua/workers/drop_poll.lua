#!lua flags=allow-oom
-- Drops a poll whose answer nobody awaits any more: nothing is claimed for it, and the next poll gets what it was
-- given.
-- KEYS worker:hash
-- ARGV poll_id(empty: the newest, whichever it is)
-- REPLY ok | over | unknown
-- CHECKS FIRST that the worker is there, and the poll its newest
local worker_key = KEYS[1]
local poll_id = ARGV[1]

local newest = redis.call('HGET', worker_key, 'poll_id')
if not newest then return {'unknown'} end
if poll_id ~= '' and newest ~= poll_id then return {'over'} end
redis.call('HSET', worker_key, 'poll_until_ms', 0, 'poll_is_told', 0)
return {'ok'}
