#!lua flags=allow-oom
-- Creates, changes or removes a user, and writes the access log. Ends the user's sessions, except the session that made
-- the change.
-- KEYS users:hash logins:hash sessions:zset identity:hash access:stream access_folds:hash
-- ARGV now_ms name
--   expected(document as the caller read it; empty: must not exist yet)
--   document(empty: remove)
--   access_entry max_users wake_channel session_prefix
--   kept_session(empty: none)
--   fold_group(empty: repeats are not folded)
-- REPLY ok:version | changed | full
-- CHECKS FIRST that the user has not changed since the caller read it; that a new user does not exceed the limit
-- include lib/clock.lua
-- include lib/identity/access_log.lua
-- include lib/identity/identity.lua
local users_key, logins_key, sessions_key, identity_key, access_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local folds_key = KEYS[6]
local now_ms, name, expected, document = clock.now_ms(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]
local access_entry, max_users, wake_channel, session_prefix = ARGV[5], tonumber(ARGV[6]), ARGV[7], ARGV[8]
local kept_session, fold_group = ARGV[9], ARGV[10]

if (redis.call('HGET', users_key, name) or '') ~= expected then return {'changed'} end
if expected == '' and redis.call('HLEN', users_key) >= max_users then return {'full'} end
if document == '' then
  redis.call('HDEL', users_key, name)
  redis.call('HDEL', logins_key, name)
else
  redis.call('HSET', users_key, name, document)
end
identity.end_sessions(sessions_key, session_prefix, kept_session)
if fold_group == '' then access_log.write(access_key, now_ms, access_entry)
else access_log.write_folded(access_key, folds_key, now_ms, fold_group, '', access_entry) end
return {'ok', identity.raise_version(identity_key, now_ms, wake_channel)}
