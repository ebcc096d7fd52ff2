#!lua flags=allow-oom
-- Creates, changes or removes tokens, all or none, and writes the access log. Ends the sessions of removed tokens.
-- KEYS tokens:hash token_uses:hash identity:hash access:stream
-- ARGV now_ms access_entry max_tokens wake_channel session_prefix sessions_prefix
--   [+ id
--      expected(document as the caller read it; empty: must not exist yet)
--      document(empty: remove)]
-- REPLY ok:version | changed | full
-- CHECKS FIRST that no token has changed since the caller read it; that the new ones do not exceed the limit
-- include lib/clock.lua
-- include lib/identity/access_log.lua
-- include lib/identity/identity.lua
local tokens_key, uses_key, identity_key, access_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local now_ms, access_entry, max_tokens, wake_channel = clock.now_ms(ARGV[1]), ARGV[2], tonumber(ARGV[3]), ARGV[4]
local session_prefix, sessions_prefix = ARGV[5], ARGV[6]
local FIRST, WIDTH = 7, 3

local more = 0
for at = FIRST, #ARGV, WIDTH do
  local expected, document = ARGV[at + 1], ARGV[at + 2]
  if (redis.call('HGET', tokens_key, ARGV[at]) or '') ~= expected then return {'changed'} end
  if expected == '' then more = more + 1 elseif document == '' then more = more - 1 end
end
if more > 0 and redis.call('HLEN', tokens_key) + more > max_tokens then return {'full'} end
for at = FIRST, #ARGV, WIDTH do
  local id, document = ARGV[at], ARGV[at + 2]
  if document == '' then
    redis.call('HDEL', tokens_key, id)
    redis.call('HDEL', uses_key, id)
    identity.end_sessions(sessions_prefix .. 'token:' .. id, session_prefix, '')
  else
    redis.call('HSET', tokens_key, id, document)
  end
end
access_log.write(access_key, now_ms, access_entry)
return {'ok', identity.raise_version(identity_key, now_ms, wake_channel)}
