#!lua flags=no-writes
-- Reads members of an index after a position, forward or backward, with the beginnings of their records. The position
-- is valid even if its member was removed.
-- KEYS index:zset
-- ARGV after_score(empty: from the start)
--   after_id count
--   head_bytes(0: no records)
--   job_prefix
--   least_score(empty: any)
--   most_score(empty: any)
--   is_backward(1: from the end)
-- REPLY ok:[id score record_beginning]
-- CHECKS FIRST nothing, because it only reads
local index_key = KEYS[1]
local after_score, after_id, count, head_bytes = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local job_prefix = ARGV[5]
local least, most, is_backward = ARGV[6], ARGV[7], ARGV[8] == '1'

-- The wanted ranks begin with `first` and end before `last`.
local first = least ~= '' and redis.call('ZCOUNT', index_key, '-inf', '(' .. least) or 0
local last = most ~= '' and redis.call('ZCOUNT', index_key, '-inf', most) or redis.call('ZCARD', index_key)
if after_score then
  -- Search by rank. A range of scores would not find the position, because many members have equal scores.
  local low, high = first, math.max(first, last)
  while low < high do
    local middle = math.floor((low + high) / 2)
    local at = redis.call('ZRANGE', index_key, middle, middle, 'WITHSCORES')
    local score = tonumber(at[2])
    local is_before = score < after_score
      or (score == after_score and (at[1] < after_id or (at[1] == after_id and not is_backward)))
    if is_before then low = middle + 1 else high = middle end
  end
  if is_backward then last = low else first = low end
end
if is_backward then first = math.max(first, last - count) else last = math.min(last, first + count) end
local page = {}
if first >= last then return {'ok', page} end
local found = redis.call('ZRANGE', index_key, first, last - 1, 'WITHSCORES')
local from, to, step = 1, #found - 1, 2
if is_backward then from, to, step = #found - 1, 1, -2 end
for i = from, to, step do
  local record = head_bytes > 0 and redis.pcall('GETRANGE', job_prefix .. found[i], 0, head_bytes - 1)
  page[#page + 1] = found[i]
  page[#page + 1] = found[i + 1]
  page[#page + 1] = type(record) == 'string' and record or ''
end
return {'ok', page}
