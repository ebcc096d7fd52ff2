#!lua flags=allow-oom
-- Removes a master that shuts down cleanly.
-- KEYS masters:zset master_info:hash
-- ARGV master_id
-- REPLY ok
-- CHECKS FIRST nothing: this script never refuses
local masters_key, info_key = KEYS[1], KEYS[2]
local master_id = ARGV[1]

redis.call('ZREM', masters_key, master_id)
redis.call('HDEL', info_key, master_id)
return {'ok'}
