#!lua flags=no-writes
-- Returns the log lines of a deleted job after a position, while the log waits to be archived.
-- KEYS log:hash logs:stream log_erasures:zset log_erased:zset
-- ARGV job_id after(number of a line) max_chunks
-- REPLY ok:record:
--     [last, dropped, size, archived, ref](fields of the log):
--     [last line, attempt, base and data](of each chunk)
--   | erased
--   | none:deleted_ms(of a job with this ID whose log was removed recently; 0: no such job)
-- CHECKS FIRST nothing, because it only reads
local log_key, logs_key, erasures_key, erased_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local id, after, max_chunks = ARGV[1], ARGV[2], ARGV[3]

if redis.call('ZSCORE', erasures_key, id) then return {'erased'} end
local known = redis.pcall('HMGET', log_key, 'record', 'last', 'dropped', 'size', 'archived', 'ref')
if known.err or not known[1] then
  return {'none', tonumber(redis.call('ZSCORE', erased_key, id) or 0)}
end
local facts = {}
for n = 1, 5 do facts[n] = known[n + 1] or '' end
local found = redis.pcall('XRANGE', logs_key, '(' .. after, '+', 'COUNT', max_chunks)
local chunks = {}
for n, entry in ipairs(found.err and {} or found) do
  chunks[n] = {string.match(entry[1], '^%d+'), entry[2][2] or '', entry[2][8] or '', entry[2][10] or ''}
end
return {'ok', known[1], facts, chunks}
