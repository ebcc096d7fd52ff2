#!lua flags=allow-oom
-- Begins to move a namespace. Writes the record of the move. Writes the registry's entry, so that masters will stop
-- serving the namespace. From then on, any master may take the move.
-- KEYS namespaces:hash settings:hash audit:stream move:hash moves:zset
-- ARGV now_ms name
--   version(16 digits of the entry that the caller read)
--   tag
--   document(the new entry)
--   id(of the move)
--   terms(of the move)
--   audit_entry audit_max wake_channel
-- REPLY ok | changed | under_way
-- CHECKS FIRST that the entry has not changed since the caller read it;
--   that no other move of the namespace is under way
-- include lib/clock.lua
-- include lib/identity/audit_log.lua
-- include lib/namespaces/registry.lua
local namespaces_key, settings_key, audit_key, move_key, moves_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local now_ms, name, version, tag = clock.now_ms(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]
local document, id, terms, audit_entry, audit_max = ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9]
local wake_channel = ARGV[10]

if redis.call('ZSCORE', moves_key, name) then return {'under_way'} end
if version == '' or not registry.is_version(namespaces_key, name, version) then return {'changed'} end

redis.call('DEL', move_key)
redis.call('HSET', move_key, 'id', id, 'step', 'announced', 'number', '0', 'until', '0', 'terms', terms)
redis.call('ZADD', moves_key, 0, name)
registry.write(namespaces_key, settings_key, name, tag, document, now_ms)
audit_log.write(audit_key, now_ms, audit_entry, audit_max)
redis.call('PUBLISH', wake_channel, 'settings')
return {'ok'}
