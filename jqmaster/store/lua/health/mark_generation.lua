#!lua flags=allow-oom
-- Marks the store's data with a generation if they have no mark yet. Works in a full store, too, because a master must
-- be able to start on a full store and drain it.
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
-- Also copy the mark to the hash `rules`, which each push reads anyway.
redis.call('HSET', rules_key, 'mark', kept)
return {'ok', kept}
