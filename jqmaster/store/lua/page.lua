#!lua flags=no-writes
-- The members of an index after a position, in its order. The position need not exist any more.
-- KEYS index:zset
-- ARGV after_score(empty: from the start) after_id count head_bytes job_prefix
-- REPLY ok:[id score record_beginning]
-- CHECKS FIRST nothing; it writes nothing
local index_key = KEYS[1]
local after_score, after_id, count, head_bytes, job_prefix = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]

local first = 0
if after_score then
  -- Binary search by rank: equal scores are common (priorities), so a score range alone would not find the place.
  local low, high = 0, redis.call('ZCARD', index_key)
  while low < high do
    local middle = math.floor((low + high) / 2)
    local at = redis.call('ZRANGE', index_key, middle, middle, 'WITHSCORES')
    local score = tonumber(at[2])
    if score < after_score or (score == after_score and at[1] <= after_id) then low = middle + 1 else high = middle end
  end
  first = low
end
local found = redis.call('ZRANGE', index_key, first, first + count - 1, 'WITHSCORES')
local page = {}
for i = 1, #found, 2 do
  local record = redis.pcall('GETRANGE', job_prefix .. found[i], 0, head_bytes - 1)
  page[#page + 1] = found[i]
  page[#page + 1] = found[i + 1]
  page[#page + 1] = type(record) == 'string' and record or ''
end
return {'ok', page}
