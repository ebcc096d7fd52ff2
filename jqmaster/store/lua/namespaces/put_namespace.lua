#!lua flags=allow-oom
-- Creates, changes or removes a namespace in the registry, writes the audit entry and tells all masters. Works in a
-- full store, too, because a namespace that is closed makes room. A stored namespace is its version in 16 digits, its
-- tag and its document, with a space between each two.
-- KEYS namespaces:hash settings:hash audit:stream
-- ARGV now_ms name expected_version(16 digits; empty: it must not exist) tag document(empty: remove it) audit_entry
--   audit_max max_namespaces wake_channel
-- REPLY ok:version | changed | full | tag_taken:name
-- CHECKS FIRST that the namespace is as the caller read it; that a new one is not one too many; that no other has its
--   tag
-- include lib/clock.lua
-- include lib/identity/audit_log.lua
local namespaces_key, settings_key, audit_key = KEYS[1], KEYS[2], KEYS[3]
local now_ms, name, expected_version, tag = clock.now_ms(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]
local document, audit_entry, audit_max = ARGV[5], ARGV[6], ARGV[7]
local max_namespaces, wake_channel = tonumber(ARGV[8]), ARGV[9]
local VERSION_DIGITS = 16

local present = redis.call('HGET', namespaces_key, name) or ''
if string.sub(present, 1, VERSION_DIGITS) ~= expected_version then return {'changed'} end
if document ~= '' then
  if present == '' and redis.call('HLEN', namespaces_key) >= max_namespaces then return {'full'} end
  local stored = redis.call('HGETALL', namespaces_key)
  for n = 1, #stored, 2 do
    if stored[n] ~= name and string.match(stored[n + 1], '^%d+ ([^ ]*) ') == tag then
      return {'tag_taken', stored[n]}
    end
  end
end

-- Masters read the version together with that of the settings, so that following namespaces costs no command of its
-- own. It is at least the clock's time, so that a store restored to an older state does not use one twice.
local version = math.max(tonumber(redis.call('HGET', settings_key, 'namespaces') or '0') + 1, now_ms)
if document == '' then
  redis.call('HDEL', namespaces_key, name)
else
  redis.call('HSET', namespaces_key, name, string.format('%016.0f', version) .. ' ' .. tag .. ' ' .. document)
end
redis.call('HSET', settings_key, 'namespaces', string.format('%.0f', version))
audit_log.write(audit_key, now_ms, audit_entry, audit_max)
redis.call('PUBLISH', wake_channel, 'settings')
return {'ok', version}
