#!lua flags=no-writes
-- Returns the deleted jobs whose log is to be removed from the archive, and those whose log is to be looked for once
-- more, with the instants of their deletion, the oldest first.
-- KEYS log_erasures:zset log_erased:zset
-- ARGV now_ms late_ms(after the deletion) limit
-- REPLY ok:[id and deleted_ms, in turn]:[id and deleted_ms, in turn]
-- CHECKS FIRST nothing; it writes nothing
-- include lib/clock.lua
local erasures_key, erased_key = KEYS[1], KEYS[2]
local now_ms, late_ms, limit = clock.now_ms(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])

local first = redis.call('ZRANGE', erasures_key, 0, limit - 1, 'WITHSCORES')
local again = redis.call('ZRANGEBYSCORE', erased_key, '-inf', string.format('%.0f', now_ms - late_ms), 'WITHSCORES',
  'LIMIT', 0, limit)
return {'ok', first, again}
