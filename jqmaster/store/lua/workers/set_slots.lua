#!lua flags=allow-oom
-- Sets the slots of a worker: how many jobs it may hold at a time. Running jobs beyond this number continue. Optionally
-- stores a slot rule for workers that register later on the same node with the same labels. Writes the audit entry.
-- KEYS worker:hash slot_rules:hash audit:stream
-- ARGV now_ms
--   max_jobs(0: the number that the worker registered)
--   rule_id
--   rule(MessagePack; empty: no slot rule)
--   audit_entry audit_max
--   wake_channel(empty: wake nobody)
-- REPLY ok:1 if this changes anything | unknown | detached
-- CHECKS FIRST that the worker is registered and not detached
-- include lib/clock.lua
-- include lib/identity/audit_log.lua
local worker_key, slot_rules_key, audit_key = KEYS[1], KEYS[2], KEYS[3]
local now_ms, max_jobs, rule_id, rule, audit_entry = clock.now_ms(ARGV[1]), ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local audit_max, wake_channel = ARGV[6], ARGV[7]

local worker = redis.call('HMGET', worker_key, 'max_jobs', 'is_detached', 'own_max_jobs')
if not worker[1] then return {'unknown'} end
if worker[2] == '1' then return {'detached'} end
-- If `own_max_jobs` is missing, a master of release 0.2 registered the worker. `max_jobs` is then the registered
-- number.
local own = worker[3] or worker[1]
local is_ordered = max_jobs ~= '0'
if not is_ordered then max_jobs = own end
-- Write again on a repeated call. WAIT covers only writes of its own connection, and the write of the first call may
-- never have reached the replicas.
redis.call('HSET', worker_key, 'max_jobs', max_jobs, 'own_max_jobs', own)
if is_ordered then
  redis.call('HSET', worker_key, 'ordered_max_jobs', max_jobs)
else
  redis.call('HDEL', worker_key, 'ordered_max_jobs')
end
local kept = rule ~= '' and max_jobs .. ' ' .. rule
local is_kept = not kept or redis.call('HGET', slot_rules_key, rule_id) == kept
if kept then redis.call('HSET', slot_rules_key, rule_id, kept) end
if worker[1] == max_jobs and is_kept then return {'ok', 0} end
audit_log.write(audit_key, now_ms, audit_entry, audit_max)
if wake_channel ~= '' then redis.call('PUBLISH', wake_channel, 'workers') end
return {'ok', 1}
