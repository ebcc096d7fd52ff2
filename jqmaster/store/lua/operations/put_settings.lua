#!lua flags=allow-oom
-- Changes the settings of all masters and writes the audit entry. Works in a full store, too, because a lower limit may
-- be needed to relieve the store.
-- KEYS settings:hash audit:stream
-- ARGV now_ms expected_version
--   document(MessagePack: every setting that differs from the configuration of the masters)
--   audit_entry audit_max wake_channel
-- REPLY ok:version | changed
-- CHECKS FIRST that the settings have not changed since the caller read them
-- include lib/clock.lua
-- include lib/identity/audit_log.lua
local settings_key, audit_key = KEYS[1], KEYS[2]
local now_ms, expected_version, document, audit_entry = clock.now_ms(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]
local audit_max, wake_channel = ARGV[5], ARGV[6]

local version = redis.call('HGET', settings_key, 'version') or '0'
if version ~= expected_version then return {'changed'} end
-- Use at least the present time in ms as the version, so that a store that was restored to an older state uses no
-- version twice.
version = string.format('%.0f', math.max(tonumber(version) + 1, now_ms))
redis.call('HSET', settings_key, 'version', version, 'document', document)
audit_log.write(audit_key, now_ms, audit_entry, audit_max)
redis.call('PUBLISH', wake_channel, 'settings')
return {'ok', tonumber(version)}
