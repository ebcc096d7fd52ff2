#!lua flags=allow-oom
-- Puts an edition of the constraints in force. No job can be claimed before. The caller has already given every running
-- job the slots that this edition demands.
-- KEYS epoch:string rules:hash
-- ARGV epoch edition
-- REPLY ok | stale_epoch | stale_constraints
-- CHECKS FIRST that the epoch is current; that the edition of the constraints is current
-- include lib/leadership.lua
local epoch_key, rules_key = KEYS[1], KEYS[2]
local epoch, edition = ARGV[1], ARGV[2]

if not leadership.holds(epoch_key, epoch) then return {'stale_epoch'} end
if (redis.call('HGET', rules_key, 'edition') or '0') ~= edition then return {'stale_constraints'} end
redis.call('HSET', rules_key, 'settled', edition)
return {'ok'}
