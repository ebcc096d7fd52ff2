#!lua
-- Makes a finished job ready again, as an operator requested. The job gets all its retries and its uniqueness key
-- again, and keeps its history.
-- KEYS job:string result:string results:zset expiring:zset rules:hash history:list
-- ARGV now_ms tag job_id
--   wake_channel(empty: wake nobody)
--   edition
--   lanes(format: lib/lanes/homes.lua)
--   history_entry(of the last attempt if it succeeded; empty: none)
--   finished_at_ms(when the job ended, as the caller read it)
--   action_id(action on many jobs that includes this job; empty: none)
--   is_watched(1: the caller's action waits for the end of the job)
--   extras(of the record, with its new weights; empty: unchanged)
-- REPLY ok | stale_constraints | unknown
--   | state:state
--   | not_unique:ID of the job that holds the uniqueness key
--   | used_up | erased
-- CHECKS FIRST that the edition of the constraints is current;
--   the state of the job;
--   that the job has not run again since the caller read it;
--   that no value that the job needs was erased;
--   which job holds its uniqueness key;
--   that the action may change one more job (used_up)
-- include lib/clock.lua
-- include lib/jobs/record.lua
-- include lib/jobs/history.lua
-- include lib/lanes/lanes.lua
-- include lib/lanes/lane_writes.lua
-- include lib/lanes/homes.lua
-- include lib/jobs/actions.lua
-- include lib/jobs/uniqueness.lua
-- include lib/jobs/followed.lua
-- include lib/jobs/erased.lua
local job_key, result_key, results_key, expiring_key, rules_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local history_key = KEYS[6]
local now_ms, id, wake_channel, edition = clock.now_ms(ARGV[1]), ARGV[3], ARGV[4], ARGV[5]
local definitions, entry, finished_at_ms = homes.read(ARGV[6]), ARGV[7], tonumber(ARGV[8])
local action_id, is_watched, extras = ARGV[9], ARGV[10] == '1', ARGV[11]
local tag = ARGV[2]
local is_retryable, index = layout.is_retryable, layout.index

if (redis.call('HGET', rules_key, 'edition') or '0') ~= edition then return {'stale_constraints'} end
local head = record.read_head(job_key)
if head == '' then return {'unknown'} end
local state = record.state_of(head)
if not is_retryable[state] or record.int64(head, layout.finished_at_ms.at) ~= finished_at_ms then
  return {'state', state}
end
if erased.cannot_run(job_key, head) then return {'erased'} end
local unique_digest, scope, until_ms
if record.has_flag(record.flags_of(head), layout.FLAG.unique) then
  unique_digest, scope, until_ms = uniqueness.of_record(job_key, head)
  -- Do not take the uniqueness key again if its scope is `until_start` and the job has started before.
  if scope == layout.SCOPE.until_start and (record.attempts_of(head)) > 0 then unique_digest = nil end
end
if unique_digest then
  local holder = uniqueness.holder_of(unique_digest, now_ms)
  if holder and holder.id ~= id then return {'not_unique', holder.id} end
end
if actions.is_used_up(action_id) then return {'used_up'} end
redis.call('ZREM', tag .. index[state], id)
followed.moved(job_key, head, layout.STATE.ready, now_ms)
if state == layout.STATE.succeeded and entry ~= '' then
  -- If the last attempt succeeded, it has no history entry yet.
  history.add(history_key, finished_at_ms, entry)
  history.trim(history_key)
end
-- Overwrite the record from `state` to `finished_at_ms`. Keep the number of attempts.
redis.call('SETRANGE', job_key, layout.state.offset,
  string.char(layout.STATE.ready, record.flags_of(head), layout.CAUSE.none)
  .. struct.pack('>I4I4I2I2i8i8i8', (record.attempts_of(head)), 0, 0, 0, 0, 0, 0))
-- Clear the token, so that an old holder is stale. Clear `expires_at`, because the operator wants the job to run.
record.void_token(job_key)
record.set_int64(job_key, layout.expires_at_ms.offset, 0)
if unique_digest then
  redis.call('SET', uniqueness.key_of(unique_digest), uniqueness.value_of(id, scope, until_ms))
end
redis.call('UNLINK', result_key)
-- Remove the checkpoint of a job that succeeded, so that the job starts from the beginning. Other jobs continue from
-- their checkpoints.
if state == layout.STATE.succeeded and record.has_flag(record.flags_of(head), layout.FLAG.has_progress) then
  redis.call('HDEL', tag .. 'progress:' .. id, 'checkpoint')
end
redis.call('ZREM', results_key, id)
redis.call('ZREM', expiring_key, id)
local lane, own = homes.of(definitions, 1, tonumber(edition))
homes.write(job_key, head, lane, definitions[1].bytes, extras ~= '' and extras or nil)
lanes.count(lane, own, 1, 1)
lanes.add(lane, record.priority_of(head), id)
lane_writes.write(nil)
followed.write(now_ms)
actions.count_job(action_id, id, is_watched)
if wake_channel ~= '' then redis.call('PUBLISH', wake_channel, 'ready') end
return {'ok'}
