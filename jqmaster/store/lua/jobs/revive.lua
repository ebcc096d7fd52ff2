#!lua
-- Revives a job that was skipped because of a predecessor, if each predecessor has succeeded or may still succeed. The
-- job waits for unfinished predecessors. If there are none, it starts. It gets all its retries and no longer expires.
-- KEYS job:string expiring:zset rules:hash awaiting_jobs:zset scheduled:zset skipped:zset
-- ARGV now_ms tag job_id
--   wake_channel(empty: wake nobody)
--   edition
--   lanes(format: lib/lanes/homes.lua)
--   finished_at_ms(when the job was skipped, as the caller read it)
--   extras(of the record, with its new weights; empty: unchanged)
-- REPLY ok:is_revived(0: not possible now) | stale_constraints
-- CHECKS FIRST that the edition of the constraints is current;
--   the state of the job and its cause;
--   that the job was not skipped again since the caller read it;
--   that no value that the job needs was erased;
--   the state of each predecessor
-- include lib/clock.lua
-- include lib/jobs/record.lua
-- include lib/lanes/lanes.lua
-- include lib/lanes/lane_writes.lua
-- include lib/lanes/homes.lua
-- include lib/jobs/dependents.lua
-- include lib/jobs/followed.lua
-- include lib/jobs/erased.lua
local job_key, expiring_key, rules_key = KEYS[1], KEYS[2], KEYS[3]
local awaiting_key, scheduled_key, skipped_key = KEYS[4], KEYS[5], KEYS[6]
local now_ms, id, wake_channel, edition = clock.now_ms(ARGV[1]), ARGV[3], ARGV[4], ARGV[5]
local definitions, finished_at_ms, extras = homes.read(ARGV[6]), tonumber(ARGV[7]), ARGV[8]

if (redis.call('HGET', rules_key, 'edition') or '0') ~= edition then return {'stale_constraints'} end
local head = record.read_head(job_key)
if record.state_of(head) ~= layout.STATE.skipped
  or string.byte(head, layout.cause.at) ~= layout.CAUSE.dependency
  or record.int64(head, layout.finished_at_ms.at) ~= finished_at_ms then return {'ok', 0} end
if erased.cannot_run(job_key, head) then return {'ok', 0} end
local ids, when = dependents.after_of(job_key, head)
if not ids then return {'ok', 0} end
local pending = {}
for _, predecessor in ipairs(ids) do
  local state = dependents.state_of(predecessor)
  if not dependents.is_met(state, when) then
    if dependents.is_over(state) then return {'ok', 0} end
    pending[#pending + 1] = predecessor
  end
end
local due_at_ms = record.int64(head, layout.due_at_ms.at)
local target = #pending > 0 and layout.STATE.awaiting_jobs or due_at_ms > now_ms and layout.STATE.scheduled
  or layout.STATE.ready
redis.call('ZREM', skipped_key, id)
followed.moved(job_key, head, target, now_ms)
-- Overwrite the record from `state` to `finished_at_ms`.
redis.call('SETRANGE', job_key, layout.state.offset,
  string.char(target, record.flags_of(head), layout.CAUSE.none)
  .. struct.pack('>I4I4I2I2i8i8i8', (record.attempts_of(head)), 0, 0, 0, due_at_ms, 0, 0))
record.set_int64(job_key, layout.expires_at_ms.offset, 0)
redis.call('ZREM', expiring_key, id)
dependents.wait(id, pending, when)
local lane, own = homes.of(definitions, 1, tonumber(edition))
homes.write(job_key, head, lane, definitions[1].bytes, extras ~= '' and extras or nil)
lanes.count(lane, own, 1, 1)
if target == layout.STATE.ready then
  lanes.add(lane, record.priority_of(head), id)
elseif target == layout.STATE.scheduled then
  redis.call('ZADD', scheduled_key, due_at_ms, id)
else
  redis.call('ZADD', awaiting_key, record.int64(head, layout.created_at_ms.at), id)
end
lane_writes.write(nil)
followed.write(now_ms)
if wake_channel ~= '' and target == layout.STATE.ready then redis.call('PUBLISH', wake_channel, 'ready') end
return {'ok', 1}
