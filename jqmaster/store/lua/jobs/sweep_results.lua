#!lua flags=allow-oom
-- Discards kept results whose time is over, at most `limit` a call.
-- KEYS epoch:string results:zset
-- ARGV now_ms epoch limit result_prefix
-- REPLY ok:discarded | stale_epoch
-- CHECKS FIRST epoch
-- include lib/clock.lua
-- include lib/lists.lua
-- include lib/leadership.lua
local epoch_key, results_key = KEYS[1], KEYS[2]
local now_ms, epoch, limit, result_prefix = clock.now_ms(ARGV[1]), ARGV[2], tonumber(ARGV[3]), ARGV[4]

if not leadership.holds(epoch_key, epoch) then return {'stale_epoch'} end
local old = redis.call('ZRANGEBYSCORE', results_key, '-inf', now_ms, 'LIMIT', 0, limit)
local garbage = {}
for i, id in ipairs(old) do garbage[i] = result_prefix .. id end
lists.call('ZREM', results_key, old)
if #garbage > 0 then redis.call('UNLINK', unpack(garbage)) end
return {'ok', #old}
