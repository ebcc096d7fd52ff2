#!lua flags=allow-oom
-- Makes the caller leader when nobody is: a lock with a life, and an epoch that only grows, also across a failover.
-- KEYS leader:string epoch:string
-- ARGV now_ms master_id nonce ttl_ms
-- REPLY ok:epoch | held:holder
-- CHECKS FIRST that the lock is free
-- include lib/time.lua
local leader_key, epoch_key = KEYS[1], KEYS[2]
local now_ms, master_id, nonce, ttl_ms = time_ms(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]

local holder = redis.call('GET', leader_key)
if holder then return {'held', holder} end
local newest = tonumber(string.match(redis.call('GET', epoch_key) or '0', '^%d+'))
local epoch = string.format('%.0f:%s', math.max(newest + 1, now_ms), nonce)
redis.call('SET', epoch_key, epoch)
redis.call('SET', leader_key, epoch .. ':' .. master_id, 'PX', ttl_ms)
return {'ok', epoch}
