#!lua flags=allow-oom
-- Ends a move. Writes the registry's entry, which names the store that holds the data from now on. Records the leftover
-- copy that must be removed.
-- KEYS namespaces:hash settings:hash audit:stream move:hash moves:zset left_copies:zset
-- ARGV now_ms name number
--   version(of the entry that the caller read, 16 digits)
--   tag
--   document(the new entry)
--   step(the last step of the move)
--   progress
--   left(leftover copy that is to be removed; empty: none)
--   left_for_ms(how long that copy is kept)
--   audit_entry audit_max wake_channel
-- REPLY ok | changed | lost | aborted
-- CHECKS FIRST that the caller is the mover;
--   that nobody has aborted the move, if it is to end as done;
--   that the entry has not changed since the caller read it
-- include lib/clock.lua
-- include lib/identity/audit_log.lua
-- include lib/namespaces/registry.lua
-- include lib/namespaces/moves.lua
local namespaces_key, settings_key, audit_key, move_key, moves_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local left_copies_key = KEYS[6]
local now_ms, name, number, version = clock.now_ms(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]
local tag, document, step, progress = ARGV[5], ARGV[6], ARGV[7], ARGV[8]
local left, left_for_ms, audit_entry, audit_max = ARGV[9], tonumber(ARGV[10]), ARGV[11], ARGV[12]
local wake_channel = ARGV[13]

if not moves.is_mover(move_key, number) then return {'lost'} end
if step == 'done' and redis.call('HGET', move_key, 'abort') then return {'aborted'} end
if version == '' or not registry.is_version(namespaces_key, name, version) then return {'changed'} end

registry.write(namespaces_key, settings_key, name, tag, document, now_ms)
local kept = redis.call('HMGET', move_key, 'id', 'terms', 'abort')
-- Delete the key first. This drops the masters' acknowledgements.
redis.call('DEL', move_key)
redis.call('HSET', move_key, 'id', kept[1], 'terms', kept[2], 'abort', kept[3] or '', 'number', number, 'until', '0',
  'step', step, 'progress', progress, 'ended_at', now_ms)
redis.call('ZREM', moves_key, name)
if left ~= '' then redis.call('ZADD', left_copies_key, now_ms + left_for_ms, left) end
audit_log.write(audit_key, now_ms, audit_entry, audit_max)
redis.call('PUBLISH', wake_channel, 'settings')
return {'ok'}
