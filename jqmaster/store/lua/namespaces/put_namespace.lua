#!lua flags=allow-oom
-- Creates, changes or removes a namespace in the registry, writes the audit entry and notifies all masters. Works in a
-- full store, too, because closing a namespace frees space. A stored namespace consists of its version in 16 digits,
-- its tag and its document, separated by spaces.
-- KEYS namespaces:hash settings:hash audit:stream
-- ARGV now_ms name
--   expected_version(16 digits; empty: must not exist yet)
--   tag
--   document(empty: remove)
--   audit_entry audit_max max_namespaces wake_channel
-- REPLY ok:version | changed | full | tag_taken:name
-- CHECKS FIRST that the namespace has not changed since the caller read it;
--   that a new namespace does not exceed the limit (full);
--   that no other namespace has its tag (tag_taken)
-- include lib/clock.lua
-- include lib/identity/audit_log.lua
-- include lib/namespaces/registry.lua
local namespaces_key, settings_key, audit_key = KEYS[1], KEYS[2], KEYS[3]
local now_ms, name, expected_version, tag = clock.now_ms(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]
local document, audit_entry, audit_max = ARGV[5], ARGV[6], ARGV[7]
local max_namespaces, wake_channel = tonumber(ARGV[8]), ARGV[9]

if not registry.is_version(namespaces_key, name, expected_version) then return {'changed'} end
if document ~= '' then
  if expected_version == '' and redis.call('HLEN', namespaces_key) >= max_namespaces then return {'full'} end
  local stored = redis.call('HGETALL', namespaces_key)
  for n = 1, #stored, 2 do
    if stored[n] ~= name and string.match(stored[n + 1], '^%d+ ([^ ]*) ') == tag then
      return {'tag_taken', stored[n]}
    end
  end
end

local version = registry.write(namespaces_key, settings_key, name, tag, document, now_ms)
audit_log.write(audit_key, now_ms, audit_entry, audit_max)
redis.call('PUBLISH', wake_channel, 'settings')
return {'ok', version}
