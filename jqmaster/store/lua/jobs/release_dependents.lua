#!lua flags=allow-oom
-- Applies the present state of a job to some of its dependents:
-- * If the job has ended in another way than required, skips the dependent.
-- * If the job has ended as required and the dependent waits for no other job, starts the dependent.
-- * If the dependent was skipped before and may have to be revived, returns its ID.
-- If the job was deleted, the last call removes its list of dependents.
-- KEYS epoch:string awaiting_jobs:zset scheduled:zset skipped:zset expiring:zset
-- ARGV now_ms tag epoch
--   wake_channel(empty: wake nobody)
--   finished_channel job_id
--   cursor(0: from the start)
--   count(about how many dependents to check)
-- REPLY ok:
--     cursor of the next call(0: done),
--     [name](of each skipped job),
--     [id](of each job to revive)
--   | stale_epoch
-- CHECKS FIRST that the epoch is current, then the state and the predecessors of each dependent
-- include lib/clock.lua
-- include lib/leadership.lua
-- include lib/jobs/record.lua
-- include lib/lists.lua
-- include lib/lanes/lanes.lua
-- include lib/lanes/lane_writes.lua
-- include lib/jobs/dependents.lua
-- include lib/jobs/followed.lua
local epoch_key, awaiting_key, scheduled_key, skipped_key, expiring_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local now_ms, epoch, wake_channel, finished_channel = clock.now_ms(ARGV[1]), ARGV[3], ARGV[4], ARGV[5]
local tag, job_id, cursor, count = ARGV[2], ARGV[6], ARGV[7], ARGV[8]

if not leadership.holds(epoch_key, epoch) then return {'stale_epoch'} end
local dependents_key, job_key = tag .. 'dependents:' .. job_id, tag .. 'job:' .. job_id
local state = dependents.state_of(job_id)
local is_over = dependents.is_over(state)
local page = redis.call('ZSCAN', dependents_key, cursor, 'COUNT', count)
local left, scheduled, skipped, watched, names, revivable = {}, {}, {}, {}, {}, {}
local has_ready = false

-- Returns the ID and the state of the root cause of this job's end: the first job in the chain of skipped jobs.
local function root()
  if state == layout.STATE.skipped then
    local first = redis.call('HGET', tag .. 'awaits:' .. job_id, 'root')
    if first then return first end
  end
  return job_id .. ' ' .. (state or '')
end

local function release(id, key, head)
  local due_at_ms = record.int64(head, layout.due_at_ms.at)
  left[#left + 1] = id
  if due_at_ms > now_ms then
    record.set_state(key, layout.STATE.scheduled)
    lists.add_pair(scheduled, due_at_ms, id)
  else
    record.set_state(key, layout.STATE.ready)
    lanes.add(lanes.of(head), record.priority_of(head), id)
    has_ready = true
  end
end

local function skip(id, key, head)
  local lane, own = lanes.home_of(head)
  lanes.count(lane, own, -1, -1)
  left[#left + 1] = id
  followed.moved(key, head, layout.STATE.skipped, now_ms)
  redis.call('HSET', tag .. 'awaits:' .. id, 'root', root())
  record.set_ended(key, layout.STATE.skipped, record.flags_of(head), layout.CAUSE.dependency, now_ms)
  lists.add_pair(skipped, string.format('%.0f', now_ms), id)
  if record.has_flag(record.flags_of(head), layout.FLAG.watched) then watched[#watched + 1] = id end
  names[#names + 1] = record.name_of(head)
end

for n = 1, #page[2], 2 do
  local id = page[2][n]
  local key, awaits_key = tag .. 'job:' .. id, tag .. 'awaits:' .. id
  local head = record.read_head(key)
  local its_state = record.state_of(head)
  if its_state == layout.STATE.awaiting_jobs then
    local when = redis.call('HGET', awaits_key, job_id)
    if when and is_over then
      if not dependents.is_met(state, when) then
        skip(id, key, head)
      else
        redis.call('HDEL', awaits_key, job_id)
        if redis.call('EXISTS', awaits_key) == 0 then release(id, key, head) end
      end
    end
  elseif its_state == layout.STATE.skipped and state
    and string.byte(head, layout.cause.at) == layout.CAUSE.dependency
    and (not is_over or state == layout.STATE.succeeded) then
    revivable[#revivable + 1] = id
  end
end
lists.call('ZREM', awaiting_key, left)
for n = 2, #skipped, 2 do redis.call('ZREM', expiring_key, skipped[n]) end
lists.zadd(scheduled_key, scheduled)
lists.zadd(skipped_key, skipped)
if page[1] == '0' and redis.call('EXISTS', job_key) == 0 then
  redis.call('UNLINK', dependents_key)
  redis.call('SREM', tag .. 'awaited', job_id)
end
local has_opened = lane_writes.write(nil)
followed.write(now_ms)
if #watched > 0 then redis.call('PUBLISH', finished_channel, table.concat(watched, ',')) end
if wake_channel ~= '' then
  if has_ready or has_opened then redis.call('PUBLISH', wake_channel, 'ready') end
  if #scheduled > 0 then redis.call('PUBLISH', wake_channel, 'due') end
end
return {'ok', page[1], names, revivable}
