#!lua flags=no-writes
-- Reads definitions that are due, and the time until another one becomes due.
-- KEYS definitions:hash definitions_due:zset definition_clocks:hash
-- ARGV now_ms passed_over(number of definitions, the longest due ones, to omit) limit
-- REPLY ok:now_ms,ms until another one becomes due (-1: none),[name, document, clock, …](document or clock empty: lost)
-- CHECKS FIRST nothing
-- include lib/clock.lua
local definitions_key, due_key, clocks_key = KEYS[1], KEYS[2], KEYS[3]
local now_ms, passed_over, limit = clock.now_ms(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])

local names = redis.call('ZRANGEBYSCORE', due_key, '-inf', now_ms, 'LIMIT', passed_over, limit)
local found = {}
if #names > 0 then
  local documents = redis.call('HMGET', definitions_key, unpack(names))
  local clocks = redis.call('HMGET', clocks_key, unpack(names))
  for n, name in ipairs(names) do
    found[3 * n - 2], found[3 * n - 1], found[3 * n] = name, documents[n] or '', clocks[n] or ''
  end
end
local next_due = redis.call('ZRANGEBYSCORE', due_key, '(' .. string.format('%.0f', now_ms), '+inf', 'WITHSCORES',
  'LIMIT', 0, 1)
return {'ok', now_ms, next_due[2] and tonumber(next_due[2]) - now_ms or -1, found}
