#!lua flags=allow-oom
-- Stores the names that a worker serves, with their contracts.
-- KEYS served_names:zset
-- ARGV now_ms contracts_prefix life_ms max_names
--   max_contracts(of a name)
--   [+ name digest
--      contract(empty: none)]
-- REPLY ok
-- CHECKS FIRST nothing: this script never refuses
-- include lib/clock.lua
local served_key = KEYS[1]
local now_ms, prefix, life_ms = clock.now_ms(ARGV[1]), ARGV[2], tonumber(ARGV[3])
local max_names, max_contracts = tonumber(ARGV[4]), tonumber(ARGV[5])
local FIRST, WIDTH = 6, 3

for i = FIRST, #ARGV, WIDTH do
  local name, digest, contract = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  redis.call('ZADD', served_key, now_ms, name)
  if contract ~= '' then
    local key = prefix .. name
    redis.call('HSET', key, digest, struct.pack('>i8', now_ms) .. contract)
    if redis.call('HLEN', key) > max_contracts then
      local oldest, oldest_ms = nil, nil
      local all = redis.call('HGETALL', key)
      for n = 1, #all, 2 do
        local told_ms = struct.unpack('>i8', all[n + 1])
        if all[n] ~= digest and (not oldest_ms or told_ms < oldest_ms) then oldest, oldest_ms = all[n], told_ms end
      end
      redis.call('HDEL', key, oldest)
    end
    redis.call('PEXPIRE', key, life_ms)
  end
end
redis.call('ZREMRANGEBYRANK', served_key, 0, -max_names - 1)
return {'ok'}
