#!lua flags=allow-oom
-- Makes the caller leader if there is no leader. The lock expires by itself. The epoch always grows, even across a
-- failover of the store.
-- KEYS leader:string epoch:string demoted:string
-- ARGV now_ms master_id nonce ttl_ms
-- REPLY ok:epoch | held:holder | demoted
-- CHECKS FIRST that the lock is free, and that the caller was not demoted
-- include lib/clock.lua
-- include lib/leadership.lua
local leader_key, epoch_key, demoted_key = KEYS[1], KEYS[2], KEYS[3]
local now_ms, master_id, nonce, ttl_ms = clock.now_ms(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]
-- Maximum life of a lock, as a multiple of the caller's `ttl_ms`. The holder may have a longer `ttl_ms` configured.
local MAX_LIVES = 4

local holder = redis.call('GET', leader_key)
if holder then
  -- Shorten a lock that lasts too long. If the clock was set back, the lock would outlive its holder.
  if redis.call('PTTL', leader_key) > MAX_LIVES * ttl_ms then
    redis.call('PEXPIRE', leader_key, MAX_LIVES * ttl_ms)
  end
  return {'held', holder}
end
if redis.call('GET', demoted_key) == master_id then return {'demoted'} end
return {'ok', leadership.begin(leader_key, epoch_key, now_ms, master_id, nonce, ttl_ms)}
