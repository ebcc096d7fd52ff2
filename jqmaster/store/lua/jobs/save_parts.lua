#!lua
-- Stores partial results of a running job. The first part of an attempt removes the parts of earlier attempts. Ignores
-- parts that this claim has already stored, so that a call can be repeated.
-- KEYS job:string parts:stream
-- ARGV job_id token_bytes worker_id_bytes
--   first(number of the first value, counted from the start of the claim)
--   max_parts max_bytes(of all parts of the attempt)
--   keep_ms(lifetime of the parts after the last one)
--   finished_channel
--   [+ value]
-- REPLY ok | stale | full
-- CHECKS FIRST that the job is running under this token at this worker; that the attempt stays within its limits
-- include lib/jobs/record.lua
local job_key, parts_key = KEYS[1], KEYS[2]
local id, token_bytes, worker_id_bytes, first = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local max_parts, max_bytes, keep_ms, finished_channel = tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7], ARGV[8]

local head = record.beginning(job_key, layout.worker_id.last)
if not record.is_held_by(head, token_bytes, worker_id_bytes) then return {'stale'} end
local attempt = record.attempts_of(head)

-- Treat a key of another type like the parts of an earlier attempt, and replace it.
local last = redis.pcall('XREVRANGE', parts_key, '+', '-', 'COUNT', 1)
last = not last.err and last[1]
local last_attempt, number, passed_over, bytes = nil, 0, 0, 0
if last then
  last_attempt, number = string.match(last[1], '^(%d+)-(%d+)$')
  last_attempt, number = tonumber(last_attempt), tonumber(number)
end
local is_anew = last_attempt ~= attempt
if is_anew then
  number = 0
else
  local fields = last[2]
  bytes = tonumber(fields[6])
  if fields[2] == token_bytes then passed_over = math.max(0, tonumber(fields[4]) - first + 1) end
end
local values, new_bytes = {}, 0
for i = 9, #ARGV do
  if i >= 9 + passed_over then
    values[#values + 1] = ARGV[i]
    new_bytes = new_bytes + #ARGV[i]
  end
end
if number + #values > max_parts or bytes + new_bytes > max_bytes then return {'full'} end
if #values == 0 then return {'ok'} end

if is_anew then redis.call('UNLINK', parts_key) end
for i, value in ipairs(values) do
  number, bytes = number + 1, bytes + #value
  redis.call('XADD', parts_key, string.format('%d-%d', attempt, number), 'token', token_bytes,
    'sent', string.format('%d', first + passed_over + i - 1), 'bytes', string.format('%d', bytes), 'value', value)
end
redis.call('PEXPIRE', parts_key, keep_ms)
-- Wake the clients that wait for the end of the job, because they also wait for its parts.
redis.call('PUBLISH', finished_channel, id)
return {'ok'}
