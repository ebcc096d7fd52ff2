#!lua flags=allow-oom
-- Returns the oldest chunks of a job's log for the archive. First records their place in the archive, so that this
-- piece is removed from the archive if the job is deleted meanwhile.
-- KEYS epoch:string job:string log:hash logs:stream log_times:zset log_waits:zset
-- ARGV tag epoch job_id max_chunks ref(place in the archive)
-- REPLY ok:record:archived:dropped:
--     [last line, attempt, base, number of lines, size and data](of each chunk)
--   | none | damaged | stale_epoch
-- CHECKS FIRST that the epoch is current; that the record and chunks exist
-- include lib/leadership.lua
-- include lib/logs/job_logs.lua
local epoch_key, job_key, log_key, logs_key, times_key, waits_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local epoch, id, max_chunks, ref = ARGV[2], ARGV[3], ARGV[4], ARGV[5]

if not leadership.holds(epoch_key, epoch) then return {'stale_epoch'} end
local known = redis.pcall('HMGET', log_key, 'record', 'archived', 'dropped')
if known.err then return {'damaged'} end
local chunks = redis.pcall('XRANGE', logs_key, '-', '+', 'COUNT', max_chunks)
if chunks.err then return {'damaged'} end
if #chunks == 0 then
  if redis.call('ZSCORE', waits_key, id) then
    job_logs.forget(id)
  end
  redis.call('ZREM', times_key, id)
  redis.call('ZREM', waits_key, id)
  return {'none'}
end
local job = known[1] or redis.pcall('GET', job_key)
if type(job) ~= 'string' then return {'damaged'} end
local found = {}
for n, chunk in ipairs(chunks) do
  local fields = chunk[2]
  if #fields < 10 then return {'damaged'} end
  found[n] = {string.match(chunk[1], '^%d+'), fields[2], fields[8], fields[4], fields[6], fields[10]}
end
redis.call('HSET', log_key, 'ref', ref)
return {'ok', job, known[2] or '0', known[3] or '0', found}
