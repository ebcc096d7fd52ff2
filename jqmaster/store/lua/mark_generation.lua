#!lua flags=allow-oom
-- Marks the data with a generation, once. Also in a full store, which else no master could start on to drain it.
-- KEYS generation:string
-- ARGV fresh
-- REPLY ok:the mark
-- CHECKS FIRST whether there is a mark
local generation_key = KEYS[1]
local fresh = ARGV[1]

local kept = redis.call('GET', generation_key) or fresh
redis.call('SET', generation_key, kept)
return {'ok', kept}
