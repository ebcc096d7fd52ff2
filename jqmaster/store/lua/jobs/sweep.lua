#!lua flags=allow-oom
-- Removes finished jobs of one state that are past their retention, the oldest first, at most `limit` a call, and the
-- uniqueness keys that they took last. Results have their own lifetime. Members of an unfinished batch are kept, and so
-- are jobs whose end is still to be reported, and those that dependents may still need; all are looked at again after
-- one more retention. With an archive, logs stay until they are in it.
-- KEYS epoch:string finished:zset expiring:zset
-- ARGV now_ms tag epoch limit retention_ms max_jobs archives_logs(1: there is an archive)
-- REPLY ok:removed | stale_epoch
-- CHECKS FIRST epoch
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

if not leadership.holds(epoch_key, epoch) then return {'stale_epoch'} end
local excess = math.min(limit, redis.call('ZCARD', finished_key) - max_jobs)
local old = excess > 0 and redis.call('ZRANGE', finished_key, 0, excess - 1)
  or redis.call('ZRANGEBYSCORE', finished_key, '-inf', now_ms - retention_ms, 'LIMIT', 0, limit)
local garbage, may_have_keys, has_batches = {}, uniqueness.is_used(), redis.call('EXISTS', tag .. 'batches') == 1
local removed, kept, needed, forgotten = {}, {}, {}, {}
local has_logs = job_logs.is_used()
local has_order = redis.call('EXISTS', tag .. 'awaited') == 1
local has_follow_ups = redis.call('EXISTS', tag .. 'follow_ups') == 1

-- Returns the batch of a job, and whether that batch still needs its members.
local function batch_of(job_key, head)
  local batch_id = followed.is_followed(head) and followed.batch_of(job_key, head)
  if not batch_id then return nil, false end
  if needed[batch_id] == nil then needed[batch_id] = batches.needs_members(batch_id) end
  return batch_id, needed[batch_id]
end

for _, id in ipairs(old) do
  local job_key = tag .. 'job:' .. id
  local batch_id, is_needed
  local head = (has_batches or has_order or has_follow_ups) and record.read_head(job_key) or ''
  if has_batches then batch_id, is_needed = batch_of(job_key, head) end
  local is_awaited = has_order and followed.is_followed(head) and dependents.is_awaited(id)
  if is_awaited and not is_needed then is_needed = dependents.is_needed(id) end
  if is_needed or (has_follow_ups and followed.is_untold(job_key, head)) then
    lists.add_pair(kept, string.format('%.0f', now_ms), id)
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
lists.zadd(finished_key, kept)
batches.write(now_ms)
if #garbage > 0 then redis.call('UNLINK', unpack(garbage)) end
return {'ok', #removed}
