#!lua flags=allow-oom
-- Opens a session for a user or token whose credentials were just verified. Ends the previous session of the same
-- browser, and subtracts the login attempt that `count_login` counted.
-- KEYS session:hash sessions:zset credentials:hash logins:hash login_attempts:hash access:stream access_folds:hash
-- ARGV now_ms digest
--   subject(`user:NAME`, `token:ID`, `config:DIGEST`, `oidc:NAME`)
--   field(of the key `credentials`, which is `users` or `tokens`)
--   expected(value of that field that the caller verified; empty: the credentials are not in this store)
--   idle_ms life_ms max_sessions
--   old_digest(of the previous session; empty: none)
--   address
--   counted_user(user of the login attempt that was counted; empty: none)
--   place(address of the caller, for display)
--   access_entry session_prefix
--   granted(user and role from a login provider; empty: none)
--   id_token(of that provider; empty: none)
-- REPLY ok:until_ms | changed
-- CHECKS FIRST that the credentials have not changed since the caller verified them
-- include lib/clock.lua
-- include lib/identity/access_log.lua
local session_key, sessions_key, credentials_key, logins_key, attempts_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local access_key, folds_key = KEYS[6], KEYS[7]
local now_ms, digest, subject, field, expected = clock.now_ms(ARGV[1]), ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local idle_ms, life_ms, max_sessions, old_digest = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8]), ARGV[9]
local address, counted_user, place, access_entry, session_prefix = ARGV[10], ARGV[11], ARGV[12], ARGV[13], ARGV[14]
local granted, id_token = ARGV[15], ARGV[16]

if expected ~= '' and redis.call('HGET', credentials_key, field) ~= expected then return {'changed'} end
if old_digest ~= '' then redis.call('UNLINK', session_prefix .. old_digest) end
local now = string.format('%.0f', now_ms)
local until_ms = string.format('%.0f', now_ms + life_ms)
redis.call('ZREMRANGEBYSCORE', sessions_key, '-inf', now)
local surplus = redis.call('ZCARD', sessions_key) - max_sessions
-- End the oldest sessions to make room for the new one.
if surplus >= 0 then
  for _, oldest in ipairs(redis.call('ZRANGE', sessions_key, 0, surplus)) do
    redis.call('UNLINK', session_prefix .. oldest)
    redis.call('ZREM', sessions_key, oldest)
  end
end
redis.call('HSET', session_key, 'subject', subject, 'until_ms', until_ms, 'used_ms', now,
  'opened_ms', now, 'address', place)
if granted ~= '' then redis.call('HSET', session_key, 'granted', granted, 'id_token', id_token) end
redis.call('PEXPIRE', session_key, math.min(idle_ms, life_ms))
redis.call('ZADD', sessions_key, until_ms, digest)
redis.call('PEXPIRE', sessions_key, life_ms)
if string.sub(subject, 1, 5) == 'user:' then redis.call('HSET', logins_key, field, now) end
for _, counted in ipairs({'a' .. address, 'u' .. counted_user}) do
  if tonumber(redis.call('HGET', attempts_key, counted) or '0') > 0 then
    redis.call('HINCRBY', attempts_key, counted, -1)
  end
end
access_log.write_folded(access_key, folds_key, now_ms, 'login ' .. subject, place, access_entry)
return {'ok', tonumber(until_ms)}
