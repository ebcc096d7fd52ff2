#!lua flags=allow-oom
-- Records that a master no longer serves a namespace that is being moved.
-- KEYS move:hash moves:zset
-- ARGV name master_id version(of the registry that the master has applied)
-- REPLY ok | none
-- CHECKS FIRST that a move is under way
local move_key, moves_key = KEYS[1], KEYS[2]
local name, master_id, version = ARGV[1], ARGV[2], ARGV[3]

if not redis.call('ZSCORE', moves_key, name) then return {'none'} end
redis.call('HSET', move_key, 'released:' .. master_id, version)
return {'ok'}
