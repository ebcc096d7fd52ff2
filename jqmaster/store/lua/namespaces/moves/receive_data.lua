#!lua flags=allow-oom
-- Reserves a tag of a store for the data of a namespace that is moved there. Data of an earlier attempt may still be
-- there, but no master serves them. Works in a full store, because a mover reserves the place of a copy before it
-- removes the copy.
-- KEYS frozen:string generation:string rules:hash
-- ARGV id(of the move) number(of the mover)
-- REPLY ok | has_data | other
-- CHECKS FIRST that no later mover of this move has reserved the tag; that masters serve no data there
local frozen_key, generation_key, rules_key = KEYS[1], KEYS[2], KEYS[3]
local id, number = ARGV[1], tonumber(ARGV[2])

local frozen = redis.call('GET', frozen_key)
if frozen then
  local other, held = string.match(frozen, '^(%S+) (%d+) %S*$')
  if other == id and tonumber(held) > number then return {'other'} end
elseif redis.call('EXISTS', generation_key) == 1 and redis.call('HGET', rules_key, 'moved_by') ~= id then
  return {'has_data'}
end

redis.call('SET', frozen_key, id .. ' ' .. string.format('%.0f', number) .. ' ')
redis.call('DEL', generation_key)
redis.call('HDEL', rules_key, 'mark')
return {'ok'}
