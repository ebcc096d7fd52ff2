#!lua flags=no-writes
-- Gives the jobs whose log is to go to the archive, the oldest first: those that are gone, and those whose newest line
-- is older than their retention.
-- KEYS log_times:zset log_waits:zset
-- ARGV now_ms retention_ms passed_over(of those that are gone) passed_over(of the others) limit
-- REPLY ok:[ids of jobs that are gone]:[ids of others]
-- CHECKS FIRST nothing; it writes nothing
-- include lib/clock.lua
local times_key, waits_key = KEYS[1], KEYS[2]
local now_ms, retention_ms, gone_passed, others_passed = clock.now_ms(ARGV[1]), tonumber(ARGV[2]), ARGV[3], ARGV[4]
local limit = tonumber(ARGV[5])

local gone = redis.call('ZRANGEBYSCORE', waits_key, '-inf', '+inf', 'LIMIT', gone_passed, limit)
local others = redis.call('ZRANGEBYSCORE', times_key, '-inf', string.format('%.0f', now_ms - retention_ms),
  'LIMIT', others_passed, limit)
return {'ok', gone, others}
