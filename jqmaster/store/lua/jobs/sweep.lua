#!lua flags=allow-oom
-- Removes finished jobs of one state after their retention, the oldest first, at most `limit` a call. Also removes the
-- uniqueness keys that still name them. Results have their own lifetime.
-- Always keeps:
-- * members of an unfinished batch
-- * jobs whose end the leader has yet to report
-- * jobs that unfinished dependents need
-- Keeps while there is room:
-- * members of a batch that may be retried
-- * jobs that dependents would need if they ran again
-- * skipped jobs that a retry of a predecessor would revive
-- If there is an archive, keeps the logs of removed jobs until they are archived.
-- KEYS epoch:string finished:zset expiring:zset
-- ARGV now_ms tag epoch limit retention_ms max_jobs
--   archives_logs(1: there is an archive)
--   most_needed(maximum number of jobs beyond max_jobs that are kept because others may need them)
--   passed(number of the oldest jobs to skip, because earlier calls kept them)
-- REPLY ok:number of removed jobs,number of checked jobs that were kept | stale_epoch
-- CHECKS FIRST that the epoch is current
-- include lib/clock.lua
-- include lib/lists.lua
-- include lib/leadership.lua
-- include lib/jobs/uniqueness.lua
-- include lib/jobs/record.lua
-- include lib/batches/batches.lua
-- include lib/jobs/dependents.lua
-- include lib/jobs/followed.lua
-- include lib/logs/job_logs.lua
local epoch_key, finished_key, expiring_key = KEYS[1], KEYS[2], KEYS[3]
local now_ms, epoch, limit, retention_ms = clock.now_ms(ARGV[1]), ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local tag, max_jobs, archives_logs = ARGV[2], tonumber(ARGV[6]), ARGV[7] == '1'
local most_needed, passed = tonumber(ARGV[8]), tonumber(ARGV[9])

if not leadership.holds(epoch_key, epoch) then return {'stale_epoch'} end
local count = redis.call('ZCARD', finished_key)
local too_many = count - max_jobs - most_needed
if too_many > 0 then passed = 0 end
local excess = math.min(limit, count - max_jobs - passed)
local old = excess > 0 and redis.call('ZRANGE', finished_key, passed, passed + excess - 1)
  or redis.call('ZRANGEBYSCORE', finished_key, '-inf', now_ms - retention_ms, 'LIMIT', passed, limit)
local garbage, may_have_keys, has_batches = {}, uniqueness.is_used(), redis.call('EXISTS', tag .. 'batches') == 1
local removed, kept, needed, forgotten = {}, 0, {}, {}
local has_logs = job_logs.is_used()
local has_awaited = redis.call('EXISTS', tag .. 'awaited') == 1
local has_follow_ups = redis.call('EXISTS', tag .. 'follow_ups') == 1

-- Returns the batch of a job, and whether that batch still needs its members.
local function batch_of(job_key, head)
  local batch_id = followed.is_followed(head) and followed.batch_of(job_key, head)
  if not batch_id then return nil, nil end
  if needed[batch_id] == nil then needed[batch_id] = batches.need_of(batch_id) or false end
  return batch_id, needed[batch_id] or nil
end

-- Returns whether other jobs need a job with the flag `followed`. 'must': they need it now. 'may': they would need it
-- after a retry. nil: no other job needs it.
local function need_of(id, job_key, head, is_awaited)
  local need = is_awaited and dependents.need_of(id, record.state_of(head)) or nil
  if not need and record.state_of(head) == layout.STATE.skipped
    and string.byte(head, layout.cause.at) == layout.CAUSE.dependency
    and dependents.may_be_revived(id, job_key, head) then return 'may' end
  return need
end

for _, id in ipairs(old) do
  local job_key = tag .. 'job:' .. id
  local batch_id, need
  local head = (has_batches or has_awaited or has_follow_ups) and record.read_head(job_key) or ''
  if has_batches then batch_id, need = batch_of(job_key, head) end
  local is_awaited = has_awaited and followed.is_followed(head) and dependents.is_awaited(id)
  if has_awaited and need ~= 'must' and followed.is_followed(head) then
    need = need_of(id, job_key, head, is_awaited) or need
  end
  if need == 'may' and too_many > #removed then need = nil end
  if need or (has_follow_ups and followed.is_untold(job_key, head)) then
    kept = kept + 1
  else
    if batch_id then batches.forget(batch_id, id) end
    if has_logs and archives_logs then
      job_logs.keep_for_archive(id, job_key, now_ms)
    elseif has_logs then
      job_logs.forget(id)
    end
    if may_have_keys then uniqueness.leave(id, job_key, now_ms) end
    removed[#removed + 1] = id
    garbage[#garbage + 1] = job_key
    garbage[#garbage + 1] = tag .. 'history:' .. id
    garbage[#garbage + 1] = tag .. 'progress:' .. id
    garbage[#garbage + 1] = tag .. 'challenges:' .. id
    if followed.is_followed(head) then redis.call('UNLINK', tag .. 'awaits:' .. id, tag .. 'dependents:' .. id) end
    if is_awaited then forgotten[#forgotten + 1] = id end
  end
end
lists.call('ZREM', finished_key, removed)
lists.call('ZREM', expiring_key, removed)
lists.call('ZREM', tag .. 'challenged', removed)
lists.call('SREM', tag .. 'awaited', forgotten)
batches.write(now_ms)
if #garbage > 0 then redis.call('UNLINK', unpack(garbage)) end
return {'ok', #removed, kept}
