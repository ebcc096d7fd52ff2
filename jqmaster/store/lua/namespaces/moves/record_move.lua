#!lua flags=allow-oom
-- Records the progress of a move, and renews the mover's hold.
-- KEYS move:hash moves:zset
-- ARGV now_ms name number(of the mover) step progress
--   hold_ms(0: release the move, so that another master continues it)
-- REPLY ok:name of the user who asked to abort the move(empty: nobody) | lost
-- CHECKS FIRST that the caller is the mover
-- include lib/clock.lua
-- include lib/namespaces/moves.lua
local move_key, moves_key = KEYS[1], KEYS[2]
local now_ms, name, number, step = clock.now_ms(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]
local progress, hold_ms = ARGV[5], tonumber(ARGV[6])

if not moves.is_mover(move_key, number) then return {'lost'} end

redis.call('HSET', move_key, 'step', step, 'progress', progress, 'until', now_ms + hold_ms)
redis.call('ZADD', moves_key, now_ms + hold_ms, name)
return {'ok', redis.call('HGET', move_key, 'abort') or ''}
