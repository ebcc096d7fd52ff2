#!lua flags=no-writes
-- Reads members of several indexes, one index after another, with the beginnings of their records.
-- KEYS [+ index:zset]
-- ARGV count head_bytes(how much of each record to read) job_prefix
-- REPLY ok:
--     [number_of_index id score record_beginning],
--     indexes_read(number of indexes that were read to the end)
-- CHECKS FIRST nothing, because it only reads
local count, head_bytes, job_prefix = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]

local page, found = {}, 0
for number, index_key in ipairs(KEYS) do
  local members = redis.call('ZRANGE', index_key, 0, count - found - 1, 'WITHSCORES')
  for i = 1, #members - 1, 2 do
    local record = redis.pcall('GETRANGE', job_prefix .. members[i], 0, head_bytes - 1)
    page[#page + 1] = number
    page[#page + 1] = members[i]
    page[#page + 1] = members[i + 1]
    page[#page + 1] = type(record) == 'string' and record or ''
    found = found + 1
  end
  if found >= count then return {'ok', page, number - 1} end
end
return {'ok', page, #KEYS}
