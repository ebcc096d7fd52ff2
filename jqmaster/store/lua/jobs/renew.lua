#!lua flags=allow-oom
-- Accepts a worker's heartbeat: records that the worker is alive, and renews the named claims that it still holds.
-- Renews no claim of a worker that is detached permanently.
-- KEYS worker:hash workers:zset running:zset epoch:string fence:string
-- ARGV now_ms worker_id worker_id_bytes
--   free(how many more jobs the worker can take)
--   as_of_ms(when the worker listed its claims, or earlier; 0: unknown; -1: another call has more claims of this
--       heartbeat)
--   lease_ms offer_ms(time to accept an offer)
--   grace_ms(time after the timeout until a claim is reclaimed)
--   job_prefix
--   max_jobs(how many jobs the worker can hold from now on; 0: unchanged)
--   [+ id token_bytes]
-- REPLY ok:
--     now_ms, epoch, is_draining,
--     detached_by(silence, operator or successor; empty: not detached),
--     [index from 0 of each claim to cancel],
--     [index of each lost claim],
--     newest fence(0: none yet),
--     max_jobs
--   | unknown
-- CHECKS FIRST that the worker is registered; that each job is running under its token at this worker
-- include lib/clock.lua
-- include lib/jobs/record.lua
-- include lib/lists.lua
local worker_key, workers_key, running_key, epoch_key, fence_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local now_ms, worker_id, worker_id_bytes, free = clock.now_ms(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]
-- Treat a time in the future as now. A worker may report such a time after the store's clock was set back.
local as_of_ms = math.min(tonumber(ARGV[5]), now_ms)
local lease_ms, offer_ms, grace_ms, job_prefix = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8]), ARGV[9]
local offered = ARGV[10]
local FIRST, WIDTH = 11, 2

local worker = redis.call('HMGET', worker_key, 'max_jobs', 'is_draining', 'is_detached', 'detached_by', 'is_gone',
  'ordered_max_jobs')
if not worker[1] then return {'unknown'} end
local detached_by = worker[3] == '1' and (worker[4] or 'operator') or ''
-- Claims of a detached worker:
-- * A worker that was detached for its silence and is back keeps its claims until it learns whether it may continue.
-- * A worker that an operator detached keeps each claim until its lease ends.
-- * A worker whose process has ended keeps nothing, because its jobs are already free.
local is_renewed, is_gone = detached_by == '' or detached_by == 'silence', worker[5] == '1'
local renewed, to_cancel, lost = {}, {}, {}
for i = FIRST, #ARGV, WIDTH do
  local id, token_bytes = ARGV[i], ARGV[i + 1]
  local key = job_prefix .. id
  local head = record.beginning(key, layout.timeout_ms.last)
  local is_ours = #head == layout.timeout_ms.last and record.is_claim_of(head, token_bytes, worker_id_bytes)
  local state = record.state_of(head)
  if is_ours and state == layout.STATE.running and not is_gone then
    local flags = record.flags_of(head)
    if not record.has_flag(flags, layout.FLAG.confirmed) then
      record.set_flags(key, flags + layout.FLAG.confirmed)
    end
    if is_renewed then
      local begun_ms, timeout_ms = record.int64(head, layout.started_at_ms.at), record.int64(head, layout.timeout_ms.at)
      local deadline_ms = begun_ms + offer_ms + timeout_ms + grace_ms
      renewed[#renewed + 1] = math.min(now_ms + lease_ms, deadline_ms)
      renewed[#renewed + 1] = id
    end
  elseif is_ours and state == layout.STATE.canceled then
    to_cancel[#to_cancel + 1] = (i - FIRST) / WIDTH
  else
    lost[#lost + 1] = (i - FIRST) / WIDTH
  end
end
redis.call('ZADD', workers_key, now_ms, worker_id)
redis.call('HSET', worker_key, 'free', free, 'as_of_ms', string.format('%.0f', as_of_ms))
lists.zadd(running_key, renewed)
local max_jobs = worker[1]
if offered ~= '0' then
  -- If an operator set the number of slots, the worker cannot exceed it.
  max_jobs = worker[6] and tonumber(worker[6]) < tonumber(offered) and worker[6] or offered
  redis.call('HSET', worker_key, 'max_jobs', max_jobs, 'own_max_jobs', offered)
end
local epoch, fence = redis.call('GET', epoch_key) or '', tonumber(redis.call('GET', fence_key) or '0')
return {'ok', now_ms, epoch, tonumber(worker[2]), detached_by, to_cancel, lost, fence, tonumber(max_jobs)}
