#!lua flags=allow-oom
-- Removes archived chunks of a job's log, up to line `last`. Removes all other data of a deleted job's log together
-- with the last chunk.
-- KEYS epoch:string log:hash logs:stream log_waits:zset
-- ARGV tag epoch job_id
--   archived(number of the last archived line as the caller read it)
--   last(number of the last line to remove)
--   chunks(number of chunks to remove)
--   bytes(their size)
-- REPLY ok:1 if chunks are left | changed | stale_epoch
-- CHECKS FIRST that the epoch is current; that these chunks are archived
-- include lib/leadership.lua
-- include lib/logs/job_logs.lua
local epoch_key, log_key, logs_key, waits_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local epoch, id, archived, last = ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local chunks, bytes = tonumber(ARGV[6]), tonumber(ARGV[7])

if not leadership.holds(epoch_key, epoch) then return {'stale_epoch'} end
local known = redis.pcall('HMGET', log_key, 'archived', 'ref')
if known.err or not known[2] or job_logs.number(known[1]) ~= archived then return {'changed'} end
local found = redis.pcall('XRANGE', logs_key, '-', string.format('%.0f', last), 'COUNT', chunks + 1)
if found.err or #found ~= chunks then return {'changed'} end
local size = 0
for _, chunk in ipairs(found) do size = size + job_logs.number(chunk[2][6]) end
if size ~= bytes then return {'changed'} end

local _, _, is_left = job_logs.take_oldest(id, last, chunks)
if not is_left and redis.call('ZSCORE', waits_key, id) then
  job_logs.forget(id)
else
  redis.call('HSET', log_key, 'archived', string.format('%.0f', last))
end
return {'ok', is_left and 1 or 0}
