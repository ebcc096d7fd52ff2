#!lua flags=allow-oom
-- Closes the folds of access events whose hour is over: writes one entry for all repeats of each event.
-- KEYS access:stream access_folds:hash
-- ARGV now_ms
-- REPLY ok
-- CHECKS FIRST nothing: this script never refuses
-- include lib/clock.lua
-- include lib/identity/access_log.lua
local access_key, folds_key = KEYS[1], KEYS[2]
local now_ms = clock.now_ms(ARGV[1])

access_log.close_folds(access_key, folds_key, now_ms)
return {'ok'}
