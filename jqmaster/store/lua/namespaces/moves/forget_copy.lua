#!lua flags=allow-oom
-- Forgets a copy that a move left behind, because the copy no longer exists.
-- KEYS left_copies:zset
-- ARGV left
-- REPLY ok
-- CHECKS FIRST nothing: this script never refuses
local left_copies_key = KEYS[1]
local left = ARGV[1]

redis.call('ZREM', left_copies_key, left)
return {'ok'}
