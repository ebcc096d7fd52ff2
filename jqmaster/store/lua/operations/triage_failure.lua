#!lua
-- Stores or removes a decision about a group of failures, and writes the audit entry.
-- KEYS failure_groups:hash failure_triage:hash audit:stream
-- ARGV now_ms group_id
--   part(a: who is assigned to the group, r: how it is resolved, m: the group into which it is merged)
--   decision(MessagePack; empty: remove)
--   audit_entry audit_max
-- REPLY ok | unknown | same
-- CHECKS FIRST that the group exists; that a decision to remove exists (same)
-- include lib/clock.lua
-- include lib/identity/audit_log.lua
local groups_key, triage_key, audit_key = KEYS[1], KEYS[2], KEYS[3]
local now_ms, id, part, decision = clock.now_ms(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]
local audit_entry, audit_max = ARGV[5], ARGV[6]
local field = part .. ':' .. id

if redis.call('HEXISTS', groups_key, id) == 0 then return {'unknown'} end
if decision == '' then
  if redis.call('HDEL', triage_key, field) == 0 then return {'same'} end
else
  redis.call('HSET', triage_key, field, decision)
end
audit_log.write(audit_key, now_ms, audit_entry, audit_max)
return {'ok'}
