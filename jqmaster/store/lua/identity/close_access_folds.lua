#!lua flags=allow-oom
-- Writes the repeats of access events that were counted, once their hour is over.
-- KEYS access:stream access_folds:hash
-- ARGV now_ms
-- REPLY ok
-- CHECKS FIRST nothing that could refuse
-- include lib/clock.lua
local access_key, folds_key = KEYS[1], KEYS[2]
local now_ms = clock.now_ms(ARGV[1])
-- include lib/access_log.lua

local folds = redis.call('HGETALL', folds_key)
for at = 1, #folds, 2 do
  if fold_is_over(folds[at + 1], now_ms) then close_fold(access_key, folds_key, folds[at], folds[at + 1]) end
end
return {'ok'}
