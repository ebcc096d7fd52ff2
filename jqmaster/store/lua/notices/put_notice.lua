#!lua flags=allow-oom
-- Creates, changes or removes a notice and writes the audit entry. Works in a full store, too. Removing a notice also
-- removes its state.
-- KEYS notices:hash notice_states:hash audit:stream
-- ARGV now_ms name
--   expected_etag(empty: must not exist yet)
--   document(empty: remove)
--   audit_entry audit_max max_notices
-- REPLY ok | changed | full
-- CHECKS FIRST that the notice has not changed since the caller read it; that a new one does not exceed the limit
-- include lib/clock.lua
-- include lib/identity/audit_log.lua
local notices_key, states_key, audit_key = KEYS[1], KEYS[2], KEYS[3]
local now_ms, name, expected_etag, document = clock.now_ms(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]
local audit_entry, audit_max, max_notices = ARGV[5], ARGV[6], tonumber(ARGV[7])

local present = redis.call('HGET', notices_key, name) or ''
if string.sub(present, 1, layout.ETAG_LENGTH) ~= expected_etag then return {'changed'} end
if present == '' and redis.call('HLEN', notices_key) >= max_notices then return {'full'} end
if document == '' then
  redis.call('HDEL', notices_key, name)
  redis.call('HDEL', states_key, name)
else
  redis.call('HSET', notices_key, name, document)
end
audit_log.write(audit_key, now_ms, audit_entry, audit_max)
return {'ok'}
