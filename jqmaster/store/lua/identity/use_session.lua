#!lua flags=allow-oom
-- Returns the user or token of a session with its present document, and restarts the session's idle time. Writes the
-- restart at most once per sixtieth of the idle time, because each write goes to the disk.
-- KEYS session:hash users:hash tokens:hash
-- ARGV now_ms idle_ms
-- REPLY ok:
--     subject: until_ms: present document of the user or token. Special documents:
--       after a login at a provider: what the provider granted
--       empty: the user or token was deleted, or is not in this store
--   | none
-- CHECKS FIRST that the session's idle time is not over; that its life is not over
-- include lib/clock.lua
local session_key, users_key, tokens_key = KEYS[1], KEYS[2], KEYS[3]
local now_ms, idle_ms = clock.now_ms(ARGV[1]), tonumber(ARGV[2])
local WRITES_PER_IDLE_TIME = 60

local session = redis.call('HMGET', session_key, 'subject', 'until_ms', 'used_ms', 'granted')
local subject, until_ms, used_ms = session[1], tonumber(session[2] or '0'), tonumber(session[3] or '0')
if not subject or now_ms >= until_ms or now_ms - used_ms >= idle_ms then return {'none'} end
if now_ms - used_ms >= idle_ms / WRITES_PER_IDLE_TIME then
  redis.call('HSET', session_key, 'used_ms', string.format('%.0f', now_ms))
  redis.call('PEXPIRE', session_key, math.min(idle_ms, until_ms - now_ms))
end
local kind, name = string.match(subject, '^(%w+):(.*)$')
local credential = session[4] or ''
if kind == 'user' then credential = redis.call('HGET', users_key, name) or '' end
if kind == 'token' then credential = redis.call('HGET', tokens_key, name) or '' end
return {'ok', subject, until_ms, credential}
