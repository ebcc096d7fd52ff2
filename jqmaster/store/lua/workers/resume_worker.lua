#!lua flags=allow-oom
-- Lets a draining worker take jobs again, and writes the audit entry.
-- KEYS worker:hash audit:stream
-- ARGV now_ms audit_entry audit_max wake_channel(empty: wake nobody)
-- REPLY ok:1 if this call resumed it | unknown | detached
-- CHECKS FIRST that the worker is registered and not detached
-- include lib/clock.lua
-- include lib/identity/audit_log.lua
local worker_key, audit_key = KEYS[1], KEYS[2]
local now_ms, audit_entry, audit_max, wake_channel = clock.now_ms(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]

local worker = redis.call('HMGET', worker_key, 'max_jobs', 'is_draining', 'is_detached')
if not worker[1] then return {'unknown'} end
if worker[3] == '1' then return {'detached'} end
-- Write again on a repeated call: see drain_worker.lua.
redis.call('HSET', worker_key, 'is_draining', 0)
if worker[2] == '0' then return {'ok', 0} end
audit_log.write(audit_key, now_ms, audit_entry, audit_max)
if wake_channel ~= '' then redis.call('PUBLISH', wake_channel, 'workers') end
return {'ok', 1}
