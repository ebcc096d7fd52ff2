#!lua flags=no-writes
-- Returns jobs whose logs must be archived, the oldest first, in two lists: deleted jobs, and jobs whose newest log
-- line is older than the retention.
-- KEYS log_times:zset log_waits:zset
-- ARGV now_ms retention_ms gone_passed(how many deleted jobs to skip) others_passed(how many other jobs to skip) limit
-- REPLY ok:[ids of deleted jobs]:[ids of other jobs]
-- CHECKS FIRST nothing, because it only reads
-- include lib/clock.lua
local times_key, waits_key = KEYS[1], KEYS[2]
local now_ms, retention_ms, gone_passed, others_passed = clock.now_ms(ARGV[1]), tonumber(ARGV[2]), ARGV[3], ARGV[4]
local limit = tonumber(ARGV[5])

local gone = redis.call('ZRANGEBYSCORE', waits_key, '-inf', '+inf', 'LIMIT', gone_passed, limit)
local others = redis.call('ZRANGEBYSCORE', times_key, '-inf', string.format('%.0f', now_ms - retention_ms),
  'LIMIT', others_passed, limit)
return {'ok', gone, others}
