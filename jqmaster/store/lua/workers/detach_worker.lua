#!lua flags=allow-oom
-- Detaches a worker permanently, as an operator requested. The worker gets no more jobs, its leases are no longer
-- renewed, and it is told to stop. Writes the audit entry.
-- KEYS worker:hash audit:stream
-- ARGV now_ms audit_entry audit_max wake_channel(empty: wake nobody)
-- REPLY ok:1 if this call detached it | unknown
-- CHECKS FIRST that the worker is registered
-- include lib/clock.lua
-- include lib/identity/audit_log.lua
local worker_key, audit_key = KEYS[1], KEYS[2]
local now_ms, audit_entry, audit_max, wake_channel = clock.now_ms(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]

local worker = redis.call('HMGET', worker_key, 'max_jobs', 'detached_by')
if not worker[1] then return {'unknown'} end
-- Write again on a repeated call: see drain_worker.lua.
redis.call('HSET', worker_key, 'is_detached', 1)
if worker[2] == 'operator' or worker[2] == 'successor' then return {'ok', 0} end
-- Replace the reason `silence`, because a worker that was detached for silence could continue.
redis.call('HSET', worker_key, 'detached_by', 'operator')
audit_log.write(audit_key, now_ms, audit_entry, audit_max)
if wake_channel ~= '' then redis.call('PUBLISH', wake_channel, 'workers') end
return {'ok', 1}
