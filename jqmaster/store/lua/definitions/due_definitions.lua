#!lua flags=no-writes
-- Reads definitions that are due, and the time until another one becomes due.
-- KEYS definitions:hash definitions_due:zset definition_clocks:hash due_on_days:zset
-- ARGV now_ms
--   passed_over(number of definitions to skip in each set, beginning with the one that has been due longest)
--   limit(of each set)
-- REPLY ok:
--     now_ms,
--     ms until another one becomes due(-1: none),
--     1 if more may be due,
--     [name, document(empty: lost), clock(empty: lost), …]
-- CHECKS FIRST nothing, because it only reads
-- include lib/clock.lua
local definitions_key, due_key, clocks_key, on_days_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local now_ms, passed_over, limit = clock.now_ms(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])

local names, next_ms, are_more = {}, nil, 0
for _, key in ipairs({due_key, on_days_key}) do
  local due = redis.call('ZRANGEBYSCORE', key, '-inf', now_ms, 'LIMIT', passed_over, limit)
  for _, name in ipairs(due) do names[#names + 1] = name end
  if #due == limit then are_more = 1 end
  local next_due = redis.call('ZRANGEBYSCORE', key, '(' .. string.format('%.0f', now_ms), '+inf', 'WITHSCORES',
    'LIMIT', 0, 1)
  if next_due[2] then next_ms = math.min(next_ms or math.huge, tonumber(next_due[2])) end
end
local found = {}
if #names > 0 then
  local documents = redis.call('HMGET', definitions_key, unpack(names))
  local clocks = redis.call('HMGET', clocks_key, unpack(names))
  for n, name in ipairs(names) do
    found[3 * n - 2], found[3 * n - 1], found[3 * n] = name, documents[n] or '', clocks[n] or ''
  end
end
return {'ok', now_ms, next_ms and next_ms - now_ms or -1, are_more, found}
