#!lua flags=allow-oom
-- Removes the contracts of a name, and writes the audit entry.
-- KEYS contracts:hash audit:stream
-- ARGV now_ms audit_entry audit_max
-- REPLY ok | unknown
-- CHECKS FIRST that the name has contracts
-- include lib/clock.lua
-- include lib/identity/audit_log.lua
local contracts_key, audit_key = KEYS[1], KEYS[2]
local now_ms, audit_entry, audit_max = clock.now_ms(ARGV[1]), ARGV[2], ARGV[3]

if redis.call('DEL', contracts_key) == 0 then return {'unknown'} end
audit_log.write(audit_key, now_ms, audit_entry, audit_max)
return {'ok'}
