#!lua flags=allow-oom
-- Sets the mark of a namespace's data, so that masters serve the data. Called at the source if the move has failed,
-- otherwise at the target.
-- KEYS frozen:string generation:string rules:hash leader:string
-- ARGV id(of the move)
--   number(of the mover)
--   mark(of the data)
-- REPLY ok | other
-- CHECKS FIRST that this mover has frozen the data
-- include lib/namespaces/freezes.lua
local frozen_key, generation_key, rules_key, leader_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local id, number, mark = ARGV[1], ARGV[2], ARGV[3]

if not freezes.are_of(frozen_key, id, number) then return {'other'} end

redis.call('DEL', leader_key)
redis.call('SET', generation_key, mark)
redis.call('HSET', rules_key, 'mark', mark, 'moved_by', id)
redis.call('DEL', frozen_key)
return {'ok'}
