#!lua
-- Asks the leader to retry the members of a batch that have failed so far.
-- KEYS batch:hash
-- ARGV now_ms tag batch_id
-- REPLY ok | unknown
-- CHECKS FIRST that the batch exists
-- include lib/clock.lua
-- include lib/jobs/follow_ups.lua
local batch_key = KEYS[1]
local now_ms, id = clock.now_ms(ARGV[1]), ARGV[3]

if redis.call('EXISTS', batch_key) == 0 then return {'unknown'} end
redis.call('HSET', batch_key, 'retry_until_ms', string.format('%.0f', now_ms))
follow_ups.add('batch_retry', id)
follow_ups.write()
return {'ok'}
