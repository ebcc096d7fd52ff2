#!lua flags=allow-oom
-- Removes groups of failures whose jobs were deleted, so that no data of these jobs remains.
-- KEYS failure_groups:hash failures_seen:zset failure_ignores:hash failure_triage:hash
-- ARGV [+ group_id]
-- REPLY ok
-- CHECKS FIRST nothing: this script never refuses
local groups_key, seen_key, ignores_key, triage_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]

for i = 1, #ARGV do
  redis.call('HDEL', groups_key, ARGV[i])
  redis.call('ZREM', seen_key, ARGV[i])
  redis.call('HDEL', ignores_key, ARGV[i])
  redis.call('HDEL', triage_key, 'a:' .. ARGV[i], 'r:' .. ARGV[i], 'm:' .. ARGV[i])
end
return {'ok'}
