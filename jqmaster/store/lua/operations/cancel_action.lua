#!lua flags=allow-oom
-- Asks the leader to end an action on many jobs. Changes that it has already made are not undone.
-- KEYS running_actions:set action:hash
-- ARGV action_id who wake_channel
-- REPLY ok | over
-- CHECKS FIRST that the action is not over
local running_key, action_key = KEYS[1], KEYS[2]
local id, who, wake_channel = ARGV[1], ARGV[2], ARGV[3]

if redis.call('SISMEMBER', running_key, id) == 0 then return {'over'} end
redis.call('HSET', action_key, 'canceled_by', who)
if wake_channel ~= '' then redis.call('PUBLISH', wake_channel, 'actions') end
return {'ok'}
