#!lua flags=allow-oom
-- Ends the given sessions of one user or token. If no session is given, ends all of them. If a session was ended,
-- writes the entry to the access log.
-- KEYS sessions:zset access:stream access_folds:hash
-- ARGV now_ms session_prefix fold_group(empty: repeats are not folded) access_entry [+ digest]
-- REPLY ok:number of ended sessions
-- CHECKS FIRST which sessions exist
-- include lib/clock.lua
-- include lib/identity/access_log.lua
local sessions_key, access_key, folds_key = KEYS[1], KEYS[2], KEYS[3]
local now_ms, session_prefix, fold_group, access_entry = clock.now_ms(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]
local FIRST = 5

local named = {}
for at = FIRST, #ARGV do named[ARGV[at]] = true end
local ended = 0
for _, digest in ipairs(redis.call('ZRANGE', sessions_key, 0, -1)) do
  if next(named) == nil or named[digest] then
    ended = ended + redis.call('UNLINK', session_prefix .. digest)
    redis.call('ZREM', sessions_key, digest)
  end
end
if ended > 0 then
  if fold_group == '' then access_log.write(access_key, now_ms, access_entry)
  else access_log.write_folded(access_key, folds_key, now_ms, fold_group, '', access_entry) end
end
return {'ok', ended}
