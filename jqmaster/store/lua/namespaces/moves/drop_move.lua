#!lua flags=allow-oom
-- Drops the record of a move, even if it cannot be read, and writes the registry's entry of the namespace. The mover
-- can then record nothing more.
-- KEYS namespaces:hash settings:hash audit:stream move:hash moves:zset left_copies:zset
-- ARGV now_ms name
--   version(16 digits of the entry that the caller read)
--   tag
--   document(the new entry)
--   left(leftover copy that is to be removed; empty: none)
--   left_for_ms(how long that copy is kept)
--   audit_entry(empty: none)
--   audit_max wake_channel
-- REPLY ok:version | changed
-- CHECKS FIRST that the entry has not changed since the caller read it
-- include lib/clock.lua
-- include lib/identity/audit_log.lua
-- include lib/namespaces/registry.lua
local namespaces_key, settings_key, audit_key, move_key, moves_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local left_copies_key = KEYS[6]
local now_ms, name, version, tag = clock.now_ms(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]
local document, left, left_for_ms, audit_entry = ARGV[5], ARGV[6], tonumber(ARGV[7]), ARGV[8]
local audit_max, wake_channel = ARGV[9], ARGV[10]

if version == '' or not registry.is_version(namespaces_key, name, version) then return {'changed'} end

redis.call('DEL', move_key)
redis.call('ZREM', moves_key, name)
if left ~= '' then redis.call('ZADD', left_copies_key, now_ms + left_for_ms, left) end
local written = registry.write(namespaces_key, settings_key, name, tag, document, now_ms)
if audit_entry ~= '' then audit_log.write(audit_key, now_ms, audit_entry, audit_max) end
redis.call('PUBLISH', wake_channel, 'settings')
return {'ok', written}
