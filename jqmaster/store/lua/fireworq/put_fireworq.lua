#!lua flags=allow-oom
-- Stores or removes a queue or a routing of the Fireworq gateway and writes the audit entry. Works in a full store,
-- too.
-- KEYS documents:hash audit:stream
-- ARGV now_ms name document(empty: remove) audit_entry audit_max
--   most(maximum number of documents)
-- REPLY ok | full
-- CHECKS FIRST that a new document does not exceed the maximum number
-- include lib/clock.lua
-- include lib/identity/audit_log.lua
local documents_key, audit_key = KEYS[1], KEYS[2]
local now_ms, name, document, audit_entry = clock.now_ms(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]
local audit_max, most = ARGV[5], tonumber(ARGV[6])

if document == '' then
  redis.call('HDEL', documents_key, name)
else
  if redis.call('HEXISTS', documents_key, name) == 0 and redis.call('HLEN', documents_key) >= most then
    return {'full'}
  end
  redis.call('HSET', documents_key, name, document)
end
audit_log.write(audit_key, now_ms, audit_entry, audit_max)
return {'ok'}
