#!lua
-- Keeps log lines of a job that the worker runs, or ran last: its last lines may come for a while after its result, or
-- after another claim took the job. Lines that the claim sent before are passed over, so that a call can be repeated.
-- The oldest chunks, of the job and of all jobs, make room.
-- KEYS job:string log:hash logs:stream log_times:zset logged:set log_totals:hash
-- ARGV now_ms tag job_id token_bytes worker_id_bytes late_ms(after another claim began) over_ms(after the job
--   ended) max_job_bytes max_bytes finished_channel
--   [+ first(number of the first line, within the claim) last lines bytes chunk]
-- REPLY ok:lines that are kept:lines that the worker left out:lines of any job that made room |
--   behind:last line that the claim sent before, in the midst of a chunk | stale
-- CHECKS FIRST token and worker of the claim, and whether chunks begin behind what it sent
-- include lib/clock.lua
-- include lib/jobs/record.lua
-- include lib/logs/job_logs.lua
local job_key, log_key, logs_key, times_key, logged_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local totals_key = KEYS[6]
local now_ms, id, token_bytes, worker_id_bytes = clock.now_ms(ARGV[1]), ARGV[3], ARGV[4], ARGV[5]
local late_ms, over_ms, max_job_bytes = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local max_bytes = tonumber(ARGV[9])
local finished_channel, is_final = ARGV[10], layout.is_final
local FIRST, WIDTH = 11, 5
-- Bounds what one call removes, so that it does not hold up the store: the next one goes on.
local MOST_MADE_ROOM = 200

local head = record.beginning(job_key, layout.worker_id.last)
local known = job_logs.read(id, 'token', 'worker', 'attempt', 'base', 'sent', 'last')
local is_known = known[1] == token_bytes and known[2] == worker_id_bytes
local attempt
if record.is_claim_of(head, token_bytes, worker_id_bytes) then
  if is_final[record.state_of(head)] and now_ms - record.int64(head, layout.finished_at_ms.at) > over_ms then
    return {'stale'}
  end
  attempt = (record.attempts_of(head))
elseif is_known and #head >= layout.worker_id.last and record.token_of(head) ~= layout.NO_ID
  and now_ms - record.int64(head, layout.started_at_ms.at) < late_ms then
  attempt = job_logs.number(known[3])
else
  return {'stale'}
end
local last = known[6] and tonumber(known[6])
if not last then
  -- These are the first lines, or the number is damaged: the newest chunk knows it.
  local newest = redis.pcall('XREVRANGE', logs_key, '+', '-', 'COUNT', 1)
  last = newest[1] and tonumber(string.match(newest[1][1], '^%d+')) or 0
end
local base = is_known and tonumber(known[4] or '') or last
-- `last` is always the sum of the two.
local sent = is_known and (tonumber(known[5] or '') or last - base) or 0
for i = FIRST, #ARGV, WIDTH do
  if tonumber(ARGV[i]) <= sent and tonumber(ARGV[i + 1]) > sent then return {'behind', sent} end
end

local function append(...)
  if type(redis.pcall('XADD', logs_key, ...)) == 'table' then
    -- A key of another type: nothing of it can be read.
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

redis.call('HSET', log_key, 'token', token_bytes, 'worker', worker_id_bytes, 'attempt', string.format('%d', attempt),
  'base', string.format('%.0f', base), 'sent', string.format('%.0f', sent), 'last', string.format('%.0f', base + sent))
if left_out > 0 then job_logs.add(log_key, 'dropped', left_out) end
redis.call('ZADD', times_key, string.format('%.0f', now_ms), id)
redis.call('SADD', logged_key, id)
job_logs.count(id, bytes)
local made_room, own_size = 0, job_logs.number(redis.call('HGET', log_key, 'size'))
for _ = 1, MOST_MADE_ROOM do
  local total = job_logs.number(redis.call('HGET', totals_key, 'size'))
  local oldest = own_size > max_job_bytes and id
    or total > max_bytes and redis.call('ZRANGE', times_key, 0, 0)[1]
  if not oldest then break end
  local lines, freed = job_logs.drop_oldest(oldest)
  made_room = made_room + lines
  if oldest == id then own_size = own_size - freed end
end
-- Clients that wait for the end of the job wait for its lines as well.
redis.call('PUBLISH', finished_channel, id)
return {'ok', kept, left_out, made_room}
