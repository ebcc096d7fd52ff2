#!lua flags=allow-oom
-- Marks the data with a generation, once. This works in a full store too: otherwise no master could start on it to
-- drain it.
-- KEYS generation:string rules:hash
-- ARGV fresh
-- REPLY ok:the mark
-- CHECKS FIRST whether there is a mark
local generation_key, rules_key = KEYS[1], KEYS[2]
local fresh = ARGV[1]

local kept = redis.call('GET', generation_key) or fresh
redis.call('SET', generation_key, kept)
-- The mark is here too, because a push reads the edition from this hash anyway.
redis.call('HSET', rules_key, 'mark', kept)
return {'ok', kept}
