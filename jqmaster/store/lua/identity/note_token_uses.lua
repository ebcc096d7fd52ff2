#!lua flags=allow-oom
-- Records when tokens were last used at a master. Skips deleted tokens. Keeps the stored time of a token if it is
-- later.
-- KEYS tokens:hash token_uses:hash
-- ARGV [+ id used_at_ms]
-- REPLY ok
-- CHECKS FIRST nothing: this script never refuses
local tokens_key, uses_key = KEYS[1], KEYS[2]
local FIRST, WIDTH = 1, 2

for at = FIRST, #ARGV, WIDTH do
  local id, used_at_ms = ARGV[at], ARGV[at + 1]
  local known_ms = tonumber(redis.call('HGET', uses_key, id) or '0')
  if tonumber(used_at_ms) > known_ms and redis.call('HEXISTS', tokens_key, id) == 1 then
    redis.call('HSET', uses_key, id, used_at_ms)
  end
end
return {'ok'}
