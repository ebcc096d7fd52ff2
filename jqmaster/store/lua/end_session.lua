#!lua flags=allow-oom
-- Ends a session for good, and writes down whose it was.
-- KEYS session:hash audit:stream
-- ARGV now_ms digest sessions_prefix audit_entry audit_max
-- REPLY ok | none
-- CHECKS FIRST that there is one
-- include lib/time.lua
local session_key, audit_key = KEYS[1], KEYS[2]
local now_ms, digest, sessions_prefix, audit_entry, audit_max = time_ms(ARGV[1]), ARGV[2], ARGV[3], ARGV[4], ARGV[5]

local subject = redis.call('HGET', session_key, 'subject')
if not subject then return {'none'} end
redis.call('UNLINK', session_key)
redis.call('ZREM', sessions_prefix .. subject, digest)
redis.call('XADD', audit_key, 'MAXLEN', '~', audit_max, '*', 'at_ms', string.format('%.0f', now_ms), 'entry', audit_entry)
return {'ok'}
