#!lua flags=no-writes
-- Returns all constraints, and the version and the edition of the whole set, read at one instant.
-- KEYS rules:hash constraints:hash
-- ARGV
-- REPLY ok:version,edition,edition in force,[name, document]
-- CHECKS FIRST nothing, because it only reads
local rules_key, constraints_key = KEYS[1], KEYS[2]

local numbers = redis.call('HMGET', rules_key, 'version', 'edition', 'settled')
return {'ok', tonumber(numbers[1] or 0), tonumber(numbers[2] or 0), tonumber(numbers[3] or 0),
  redis.call('HGETALL', constraints_key)}
