#!lua flags=allow-oom
-- Creates, changes or removes a target, writes the audit entry and notifies all masters. Works in a full store, too,
-- because a new target may let jobs leave the store.
-- KEYS targets:hash settings:hash audit:stream
-- ARGV now_ms name
--   expected_etag(empty: must not exist yet)
--   document(empty: remove)
--   audit_entry audit_max max_targets wake_channel
-- REPLY ok | changed | full
-- CHECKS FIRST that the target has not changed since the caller read it; that a new one does not exceed the limit
-- include lib/clock.lua
-- include lib/identity/audit_log.lua
local targets_key, settings_key, audit_key = KEYS[1], KEYS[2], KEYS[3]
local now_ms, name, expected_etag, document = clock.now_ms(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]
local audit_entry, audit_max, max_targets, wake_channel = ARGV[5], ARGV[6], tonumber(ARGV[7]), ARGV[8]

local present = redis.call('HGET', targets_key, name) or ''
if string.sub(present, 1, layout.ETAG_LENGTH) ~= expected_etag then return {'changed'} end
if present == '' and redis.call('HLEN', targets_key) >= max_targets then return {'full'} end
if document == '' then
  redis.call('HDEL', targets_key, name)
else
  redis.call('HSET', targets_key, name, document)
end
-- Raise the version in the hash of the settings, because masters read this hash anyway. The version is at least the
-- present time in ms, so that a store that was restored to an older state uses no version twice.
local version = tonumber(redis.call('HGET', settings_key, 'targets') or '0')
redis.call('HSET', settings_key, 'targets', string.format('%.0f', math.max(version + 1, now_ms)))
audit_log.write(audit_key, now_ms, audit_entry, audit_max)
redis.call('PUBLISH', wake_channel, 'settings')
return {'ok'}
