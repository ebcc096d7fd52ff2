#!lua flags=no-writes
-- Reads the jobs with challenges that were not answered in time, and the time until the next job is due.
-- KEYS awaiting:zset
-- ARGV now_ms limit job_prefix
-- REPLY ok:now_ms,[id record_beginning],ms until the next job is due(-1: none)
-- CHECKS FIRST nothing, because it only reads
-- include lib/clock.lua
local awaiting_key = KEYS[1]
local now_ms, limit, job_prefix = clock.now_ms(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
local HEAD_BYTES = 1024

local found = {}
for _, id in ipairs(redis.call('ZRANGEBYSCORE', awaiting_key, '-inf', now_ms, 'LIMIT', 0, limit)) do
  local head = redis.pcall('GETRANGE', job_prefix .. id, 0, HEAD_BYTES - 1)
  found[#found + 1] = id
  found[#found + 1] = type(head) == 'string' and head or ''
end
local behind_now = string.format('(%.0f', now_ms)
local next_due = redis.call('ZRANGEBYSCORE', awaiting_key, behind_now, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
return {'ok', now_ms, found, next_due[2] and tonumber(next_due[2]) - now_ms or -1}
