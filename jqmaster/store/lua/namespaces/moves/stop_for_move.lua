#!lua flags=allow-oom
-- Writes the registry's entry of a namespace that is being moved, so that no master serves it any longer.
-- KEYS namespaces:hash settings:hash move:hash
-- ARGV now_ms name number
--   version(16 digits of the entry that the caller read)
--   tag
--   document(the new entry)
--   wake_channel
-- REPLY ok:version | changed | lost
-- CHECKS FIRST that the caller is the mover; that the entry has not changed since the caller read it
-- include lib/clock.lua
-- include lib/namespaces/registry.lua
-- include lib/namespaces/moves.lua
local namespaces_key, settings_key, move_key = KEYS[1], KEYS[2], KEYS[3]
local now_ms, name, number, version = clock.now_ms(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]
local tag, document, wake_channel = ARGV[5], ARGV[6], ARGV[7]

if not moves.is_mover(move_key, number) then return {'lost'} end
if version == '' or not registry.is_version(namespaces_key, name, version) then return {'changed'} end

local written = registry.write(namespaces_key, settings_key, name, tag, document, now_ms)
redis.call('HSET', move_key, 'step', 'closing')
redis.call('PUBLISH', wake_channel, 'settings')
return {'ok', written}
