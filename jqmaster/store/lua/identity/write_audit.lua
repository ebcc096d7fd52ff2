#!lua flags=allow-oom
-- Writes an entry to the audit log.
-- KEYS audit:stream
-- ARGV now_ms audit_entry audit_max
-- REPLY ok
-- CHECKS FIRST nothing: this script never refuses
-- include lib/clock.lua
-- include lib/identity/audit_log.lua
local audit_key = KEYS[1]
local now_ms, audit_entry, audit_max = clock.now_ms(ARGV[1]), ARGV[2], ARGV[3]

audit_log.write(audit_key, now_ms, audit_entry, audit_max)
return {'ok'}
