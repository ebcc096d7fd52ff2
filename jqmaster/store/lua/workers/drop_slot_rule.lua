#!lua flags=allow-oom
-- Removes a slot rule, and writes the audit entry. Registered workers keep their slots.
-- KEYS slot_rules:hash audit:stream
-- ARGV now_ms rule_id audit_entry audit_max
-- REPLY ok | unknown
-- CHECKS FIRST that the rule exists
-- include lib/clock.lua
-- include lib/identity/audit_log.lua
local slot_rules_key, audit_key = KEYS[1], KEYS[2]
local now_ms, rule_id, audit_entry, audit_max = clock.now_ms(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]

if redis.call('HDEL', slot_rules_key, rule_id) == 0 then return {'unknown'} end
audit_log.write(audit_key, now_ms, audit_entry, audit_max)
return {'ok'}
