#!lua flags=allow-oom
-- Closes folds of access events that are older than an hour. A fold counts the repeats of one event. Closing it writes
-- one entry for all of these repeats.
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
