#!lua flags=allow-oom
-- Ends a session. Writes to the access log which user or token it belonged to.
-- KEYS session:hash access:stream access_folds:hash
-- ARGV now_ms digest sessions_prefix access_entry
-- REPLY ok | none
-- CHECKS FIRST that the session exists
-- include lib/clock.lua
-- include lib/identity/access_log.lua
local session_key, access_key, folds_key = KEYS[1], KEYS[2], KEYS[3]
local now_ms, digest, sessions_prefix, access_entry = clock.now_ms(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]

local subject = redis.call('HGET', session_key, 'subject')
if not subject then return {'none'} end
redis.call('UNLINK', session_key)
redis.call('ZREM', sessions_prefix .. subject, digest)
access_log.write_folded(access_key, folds_key, now_ms, 'logout ' .. subject, '', access_entry)
return {'ok'}
