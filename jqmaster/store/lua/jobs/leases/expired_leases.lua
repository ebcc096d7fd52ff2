#!lua flags=no-writes
-- Returns claims whose lease or run time is over, with the facts from which the leader decides what to do with them.
-- KEYS running:zset workers:zset
-- ARGV now_ms limit job_prefix worker_prefix left_prefix
-- REPLY ok:
--     now_ms,
--     for each claim:
--       id, head
--       worker_seen_ms(0: the worker is not registered)
--       worker_as_of_ms(when the worker last listed its claims, or earlier; 0: unknown)
--       detached_by(empty: not detached)
--       is_gone(1: the worker's process is known to have ended)
--       orderly_end of the worker's process:
--         announced: the worker announced its end
--         unregistered: the worker removed itself
--         left: the worker did both
--         empty: no orderly end is known
--       lease_until_ms,
--     ms until the next lease ends(-1: none)
-- CHECKS FIRST nothing, because it only reads
-- include lib/clock.lua
-- include lib/jobs/record.lua
local running_key, workers_key = KEYS[1], KEYS[2]
local now_ms, limit, job_prefix, worker_prefix = clock.now_ms(ARGV[1]), tonumber(ARGV[2]), ARGV[3], ARGV[4]
local left_prefix = ARGV[5]
-- How many bytes of a record are read. They usually contain everything before the argument.
local HEAD_BYTES = 1024

-- Returns `orderly_end` as in the reply. A worker that is not registered but still has claims must have unregistered
-- itself, because nothing else removes a worker with claims.
local function orderly_end(worker_id, is_registered, leaving_at_ms)
  if is_registered then return leaving_at_ms and 'announced' or '' end
  return redis.call('EXISTS', left_prefix .. worker_id) == 1 and 'left' or 'unregistered'
end

local found = {}
local ended = redis.call('ZRANGEBYSCORE', running_key, '-inf', now_ms, 'WITHSCORES', 'LIMIT', 0, limit)
for n = 1, #ended, 2 do
  local id = ended[n]
  local head = record.beginning(job_prefix .. id, HEAD_BYTES)
  local worker_id = #head >= layout.worker_id.last and record.uuid_text(record.worker_of(head)) or ''
  local seen = redis.call('ZSCORE', workers_key, worker_id)
  local worker = redis.call('HMGET', worker_prefix .. worker_id, 'as_of_ms', 'detached_by', 'is_gone',
    'leaving_at_ms', 'max_jobs')
  found[#found + 1] = id
  found[#found + 1] = head
  found[#found + 1] = seen and tonumber(seen) or 0
  found[#found + 1] = worker[1] and tonumber(worker[1]) or 0
  found[#found + 1] = worker[2] or ''
  found[#found + 1] = worker[3] == '1' and 1 or 0
  found[#found + 1] = orderly_end(worker_id, worker[5], worker[4])
  found[#found + 1] = tonumber(ended[n + 1])
end
local later = redis.call('ZRANGEBYSCORE', running_key, '(' .. string.format('%.0f', now_ms), '+inf',
  'WITHSCORES', 'LIMIT', 0, 1)
return {'ok', now_ms, found, later[2] and tonumber(later[2]) - now_ms or -1}
