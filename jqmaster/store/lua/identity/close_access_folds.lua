#!lua flags=allow-oom
-- Writes one entry for the repeats of each access event whose hour of counting is over.
-- KEYS access:stream access_folds:hash
-- ARGV now_ms
-- REPLY ok
-- CHECKS FIRST nothing that could refuse
-- include lib/clock.lua
-- include lib/identity/access_log.lua
local access_key, folds_key = KEYS[1], KEYS[2]
local now_ms = clock.now_ms(ARGV[1])

access_log.close_folds(access_key, folds_key, now_ms)
return {'ok'}
