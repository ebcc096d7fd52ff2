#!lua
-- Stores log lines of a job that the worker runs, or ran a short while ago. Even the first lines of a claim may arrive
-- after the result of the claim, or after a later claim of the job. Ignores lines that this claim has already stored,
-- so that a call can be repeated. If the logs of this job or of all jobs exceed their limits, removes the oldest
-- chunks.
-- KEYS job:string log:hash logs:stream log_times:zset logged:set log_totals:hash
-- ARGV now_ms tag job_id token_bytes worker_id_bytes
--   late_ms(how long lines are accepted after the start of a later claim)
--   over_ms(how long lines are accepted after the end of the job)
--   max_job_bytes max_bytes finished_channel
--   [+ first(number of the first line, within the claim)
--      last(number of the last line, within the claim)
--      lines(number of lines that the chunk has)
--      bytes chunk]
-- REPLY ok:number of stored lines:number of lines that the worker left out:number of removed lines, of any job
--   | behind:number of the last line that the claim has stored(it lies within a chunk of this call)
--   | stale
-- CHECKS FIRST that the claim belongs to this worker; that no chunk contains both old and new lines
-- include lib/clock.lua
-- include lib/jobs/record.lua
-- include lib/jobs/history.lua
-- include lib/logs/job_logs.lua
local job_key, log_key, logs_key, times_key, logged_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local totals_key = KEYS[6]
local now_ms, id, token_bytes, worker_id_bytes = clock.now_ms(ARGV[1]), ARGV[3], ARGV[4], ARGV[5]
local late_ms, over_ms, max_job_bytes = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local max_bytes = tonumber(ARGV[9])
local finished_channel, is_final = ARGV[10], layout.is_final
local FIRST, WIDTH = 11, 5
-- The maximum number of chunks that one call removes, so that the store is not blocked. The next call removes more.
local MAX_MADE_ROOM = 200

local head = record.beginning(job_key, layout.worker_id.last)
local known = job_logs.read(id, 'token', 'worker', 'attempt', 'base', 'sent', 'last', 'late_token', 'late_worker',
  'late_attempt', 'late_sent')
local is_known = known[1] == token_bytes and known[2] == worker_id_bytes
-- True if this claim has written lines, and another claim has written since.
local is_late = known[7] == token_bytes and known[8] == worker_id_bytes
local attempt

-- Searches the history for an attempt that this worker ended recently, because the record has only the newest token.
-- With `wanted`, finds only the attempt with this number. Without it, finds the newest attempt that has no lines yet.
-- Returns the number of the attempt, or nil.
local function ended_attempt(wanted)
  local worker_id = record.uuid_text(worker_id_bytes)
  for _, entry in ipairs(history.newest(id)) do
    local is_recent = now_ms - entry.ended_at_ms < late_ms
    local is_told = entry.attempt == job_logs.number(known[3]) or entry.attempt == job_logs.number(known[9])
    if is_recent and entry.worker_id == worker_id and entry.ending ~= 'lost' and entry.ending ~= 'continued'
      and (entry.attempt == wanted or not wanted and not is_told) then
      return entry.attempt
    end
  end
end

if record.is_claim_of(head, token_bytes, worker_id_bytes) then
  if is_final[record.state_of(head)] and now_ms - record.int64(head, layout.finished_at_ms.at) > over_ms then
    return {'stale'}
  end
  attempt = (record.attempts_of(head))
elseif #head < layout.worker_id.last then
  return {'stale'}
elseif is_known or is_late then
  attempt = job_logs.number(known[is_known and 3 or 9])
  local is_taken
  if record.token_of(head) == layout.NO_ID then is_taken = ended_attempt(attempt)
  else is_taken = now_ms - record.int64(head, layout.started_at_ms.at) < late_ms end
  if not is_taken then return {'stale'} end
else
  attempt = ended_attempt(nil)
  if not attempt then return {'stale'} end
  is_late = true
end
local last = known[6] and tonumber(known[6])
if not last then
  -- Either there are no lines yet, or the stored number is damaged. Use the number of the newest chunk.
  local newest = redis.pcall('XREVRANGE', logs_key, '+', '-', 'COUNT', 1)
  last = newest[1] and tonumber(string.match(newest[1][1], '^%d+')) or 0
end
local sent = 0
if is_known then
  -- If `sent` is not stored, use the difference between `last` and `base`.
  sent = tonumber(known[5] or '') or last - (tonumber(known[4] or '') or last)
elseif known[7] == token_bytes then
  sent = job_logs.number(known[10])
end
local base = last - sent
for i = FIRST, #ARGV, WIDTH do
  if tonumber(ARGV[i]) <= sent and tonumber(ARGV[i + 1]) > sent then return {'behind', sent} end
end

local function append(...)
  if type(redis.pcall('XADD', logs_key, ...)) == 'table' then
    -- Replace a damaged key.
    redis.call('UNLINK', logs_key)
    redis.call('XADD', logs_key, ...)
  end
end

local kept, left_out, bytes = 0, 0, 0
for i = FIRST, #ARGV, WIDTH do
  local chunk_last, lines, size = tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]), ARGV[i + 3]
  if chunk_last > sent then
    left_out = left_out + chunk_last - sent - lines
    kept, bytes, sent = kept + lines, bytes + size, chunk_last
    append(string.format('%.0f-0', base + sent), 'attempt', string.format('%d', attempt), 'lines', ARGV[i + 2],
      'size', size, 'base', string.format('%.0f', base), 'chunk', ARGV[i + 4])
  end
end
if kept == 0 then return {'ok', 0, 0, 0} end

local prefix = ''
if is_late and not is_known then
  prefix = 'late_'
elseif not is_known and known[1] then
  redis.call('HSET', log_key, 'late_token', known[1], 'late_worker', known[2] or '', 'late_attempt', known[3] or '0',
    'late_sent', known[5] or '0')
end
-- The number of lines that the claim named by `token` has sent. Late lines of another claim do not count.
local main_sent = prefix == '' and sent or job_logs.number(known[5])
redis.call('HSET', log_key, prefix .. 'token', token_bytes, prefix .. 'worker', worker_id_bytes,
  prefix .. 'attempt', string.format('%d', attempt), prefix .. 'sent', string.format('%.0f', sent),
  'base', string.format('%.0f', base + sent - main_sent), 'last', string.format('%.0f', base + sent))
if left_out > 0 then job_logs.add(log_key, 'dropped', left_out) end
redis.call('ZADD', times_key, string.format('%.0f', now_ms), id)
redis.call('SADD', logged_key, id)
job_logs.count(id, bytes)
local made_room, own_size = 0, job_logs.number(redis.call('HGET', log_key, 'size'))
for _ = 1, MAX_MADE_ROOM do
  local total = job_logs.number(redis.call('HGET', totals_key, 'size'))
  local oldest = own_size > max_job_bytes and id
    or total > max_bytes and redis.call('ZRANGE', times_key, 0, 0)[1]
  if not oldest then break end
  local lines, freed = job_logs.drop_oldest(oldest)
  made_room = made_room + lines
  if oldest == id then own_size = own_size - freed end
end
-- Wake the clients that wait for the end of the job, because they also wait for its lines.
redis.call('PUBLISH', finished_channel, id)
return {'ok', kept, left_out, made_room}
