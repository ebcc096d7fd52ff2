#!lua flags=no-writes
-- Returns deleted jobs with the times of their deletion, the oldest first, in two lists: jobs whose logs must be
-- removed from the archive, and jobs for which the archive must be checked a second time.
-- KEYS log_erasures:zset log_erased:zset
-- ARGV now_ms late_ms(delay of the second check after the deletion) limit
-- REPLY ok:[id, deleted_ms](to remove):[id, deleted_ms](to check again)
-- CHECKS FIRST nothing, because it only reads
-- include lib/clock.lua
local erasures_key, erased_key = KEYS[1], KEYS[2]
local now_ms, late_ms, limit = clock.now_ms(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])

local first = redis.call('ZRANGE', erasures_key, 0, limit - 1, 'WITHSCORES')
local again = redis.call('ZRANGEBYSCORE', erased_key, '-inf', string.format('%.0f', now_ms - late_ms), 'WITHSCORES',
  'LIMIT', 0, limit)
return {'ok', first, again}
