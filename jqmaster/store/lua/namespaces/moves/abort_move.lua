#!lua flags=allow-oom
-- Asks the mover of a namespace to abort the move and leave the data where they are.
-- KEYS move:hash moves:zset audit:stream
-- ARGV now_ms name who audit_entry audit_max
-- REPLY ok | none
-- CHECKS FIRST that a move is under way
-- include lib/clock.lua
-- include lib/identity/audit_log.lua
local move_key, moves_key, audit_key = KEYS[1], KEYS[2], KEYS[3]
local now_ms, name, who, audit_entry, audit_max = clock.now_ms(ARGV[1]), ARGV[2], ARGV[3], ARGV[4], ARGV[5]

if not redis.call('ZSCORE', moves_key, name) then return {'none'} end
if redis.call('HGET', move_key, 'abort') then return {'ok'} end

redis.call('HSET', move_key, 'abort', who)
audit_log.write(audit_key, now_ms, audit_entry, audit_max)
return {'ok'}
