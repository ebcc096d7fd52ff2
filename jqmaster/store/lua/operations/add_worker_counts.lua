#!lua
-- Stores a master's counts of workers for the present minute. Ignores a repeated call, which has the same number.
-- KEYS flushed:string
-- ARGV now_ms tag master_id number(of the call; each call has a higher one)
--   lives_ms(how long the counts are kept)
--   counts(MessagePack)
-- REPLY ok:now_ms | repeat
-- CHECKS FIRST that no call with this number, or a later one, came before
-- include lib/clock.lua
local flushed_key = KEYS[1]
local now_ms, tag, master_id, number = clock.now_ms(ARGV[1]), ARGV[2], ARGV[3], tonumber(ARGV[4])
local lives_ms, counted = tonumber(ARGV[5]), ARGV[6]
local MINUTE_MS, FLUSHED_MS = 60000, 3600000

if tonumber(redis.call('GET', flushed_key) or '0') >= number then return {'repeat'} end
local number_text = string.format('%.0f', number)
redis.call('SET', flushed_key, number_text, 'PX', FLUSHED_MS)
local key = tag .. 'worker_minute:' .. string.format('%.0f', math.floor(now_ms / MINUTE_MS))
-- Write a new field in each call. Readers add the fields up, so the store does not have to.
redis.call('HSET', key, master_id .. ':' .. number_text, counted)
redis.call('PEXPIRE', key, lives_ms)
return {'ok', now_ms}
