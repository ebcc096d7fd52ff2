#!lua flags=allow-oom
-- Marks the store's data with a generation if it has no mark yet. Works in a full store, too, because a master must be
-- able to start there and drain it.
-- KEYS generation:string rules:hash frozen:string leader:string
-- ARGV fresh(the mark to set)
-- REPLY ok:the present mark | frozen
-- CHECKS FIRST that no move of the namespace has frozen the data; whether the data have a mark
-- include lib/namespaces/freezes.lua
local generation_key, rules_key, frozen_key, leader_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local fresh = ARGV[1]

if redis.call('EXISTS', frozen_key) == 1 or freezes.leads(leader_key) then return {'frozen'} end
local kept = redis.call('GET', generation_key) or fresh
redis.call('SET', generation_key, kept)
-- Copy the mark to the hash from which each push reads the edition anyway.
redis.call('HSET', rules_key, 'mark', kept)
return {'ok', kept}
