#!lua flags=allow-oom
-- Makes a master the mover of a namespace if no other master holds the move. A mover that stops renewing its hold is
-- replaced. Its number is then no longer valid.
-- KEYS move:hash moves:zset
-- ARGV now_ms name master_id hold_ms
-- REPLY ok:number | held | none
-- CHECKS FIRST that a move is under way; that no other master holds it
-- include lib/clock.lua
local move_key, moves_key = KEYS[1], KEYS[2]
local now_ms, name, master_id, hold_ms = clock.now_ms(ARGV[1]), ARGV[2], ARGV[3], tonumber(ARGV[4])

local due_ms = tonumber(redis.call('ZSCORE', moves_key, name) or '-1')
if due_ms < 0 then return {'none'} end
-- Respect the hold of another mover only if it ends before a new hold would. If it ends later, it began before the
-- clock was set back.
if due_ms > now_ms and due_ms <= now_ms + hold_ms then return {'held'} end

-- Count a damaged number as 0. Readers of the record report it.
local number = (tonumber(redis.call('HGET', move_key, 'number') or '0') or 0) + 1
redis.call('HSET', move_key, 'number', number, 'mover', master_id, 'until', now_ms + hold_ms)
redis.call('ZADD', moves_key, now_ms + hold_ms, name)
return {'ok', number}
