#!lua flags=allow-oom
-- Counts a login attempt before its password is checked. Refuses the attempt if this address or this user has made too
-- many attempts within the window.
-- KEYS login_attempts:hash
-- ARGV now_ms window_ms most_of_address most_of_user
--   max_fields(maximum size of the hash)
--   address user(empty: no user is named)
-- REPLY ok | limited:wait_ms
-- CHECKS FIRST how many attempts came from the address, and for the user, within the window
-- include lib/clock.lua
local attempts_key = KEYS[1]
local now_ms, window_ms, most_of_address = clock.now_ms(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local most_of_user = tonumber(ARGV[4])
local max_fields, address, user = tonumber(ARGV[5]), 'a' .. ARGV[6], ARGV[7]

local since_ms = tonumber(redis.call('HGET', attempts_key, 'since_ms') or '0')
-- Start new counts in these cases:
-- * The window has ended.
-- * The clock was set back. Otherwise users would be locked out for too long.
-- * The hash is full. Otherwise an attacker could fill it and lock everybody out.
local is_new = now_ms - since_ms >= window_ms or now_ms < since_ms or redis.call('HLEN', attempts_key) + 2 > max_fields
if not is_new then
  local of_address = tonumber(redis.call('HGET', attempts_key, address) or '0')
  local of_user = user ~= '' and tonumber(redis.call('HGET', attempts_key, 'u' .. user) or '0') or 0
  if of_address >= most_of_address or of_user >= most_of_user then
    return {'limited', since_ms + window_ms - now_ms}
  end
else
  redis.call('DEL', attempts_key)
  redis.call('HSET', attempts_key, 'since_ms', string.format('%.0f', now_ms))
  redis.call('PEXPIRE', attempts_key, 2 * window_ms)
end
redis.call('HINCRBY', attempts_key, address, 1)
if user ~= '' then redis.call('HINCRBY', attempts_key, 'u' .. user, 1) end
return {'ok'}
