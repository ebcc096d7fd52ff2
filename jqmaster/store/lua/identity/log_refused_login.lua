#!lua flags=allow-oom
-- Writes a refused login to the access log. Repeats within the hour are only counted.
-- KEYS access:stream access_folds:hash
-- ARGV now_ms
--   kind(of repeats: the user or the address of the login)
--   access_entry
-- REPLY ok
-- CHECKS FIRST nothing: this script never refuses
-- include lib/clock.lua
-- include lib/identity/access_log.lua
local access_key, folds_key = KEYS[1], KEYS[2]
local now_ms, kind, access_entry = clock.now_ms(ARGV[1]), ARGV[2], ARGV[3]

access_log.write_folded(access_key, folds_key, now_ms, 'refused', kind, access_entry)
return {'ok'}
