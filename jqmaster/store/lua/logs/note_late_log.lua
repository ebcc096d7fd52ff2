#!lua flags=allow-oom
-- Schedules another removal of a deleted job's log from the archive, because a delayed leader may have archived a piece
-- of the log after the first removal. Any master may call this script.
-- KEYS log_erasures:zset log_erased:zset
-- ARGV job_id created_ms(of the job)
-- REPLY ok:1 if the log has to be removed
-- CHECKS FIRST whether this job was deleted, and not an earlier job with the same ID
local erasures_key, erased_key = KEYS[1], KEYS[2]
local id, created_ms = ARGV[1], tonumber(ARGV[2])

if redis.call('ZSCORE', erasures_key, id) then return {'ok', 1} end
local deleted_ms = redis.call('ZSCORE', erased_key, id)
if not deleted_ms or tonumber(deleted_ms) < created_ms then return {'ok', 0} end
redis.call('ZREM', erased_key, id)
redis.call('ZADD', erasures_key, deleted_ms, id)
return {'ok', 1}
