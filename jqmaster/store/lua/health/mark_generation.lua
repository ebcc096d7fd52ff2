#!lua flags=allow-oom
-- Marks the data with a generation, once. Also in a full store, which else no master could start on to drain it.
-- KEYS generation:string rules:hash
-- ARGV fresh
-- REPLY ok:the mark
-- CHECKS FIRST whether there is a mark
local generation_key, rules_key = KEYS[1], KEYS[2]
local fresh = ARGV[1]

local kept = redis.call('GET', generation_key) or fresh
redis.call('SET', generation_key, kept)
-- A push reads the edition of the rules there anyway.
redis.call('HSET', rules_key, 'mark', kept)
return {'ok', kept}
