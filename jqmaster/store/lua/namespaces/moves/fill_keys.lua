#!lua
-- Writes keys, or further parts of long keys, into the store to which a namespace is moved. Skips keys that have
-- expired meanwhile.
-- KEYS frozen:string [+ key:string]
-- ARGV now_ms
--   id(of the move)
--   number(of the mover)
--   [+ kind(0: string, 1: list, 2: hash, 3: set, 4: sorted set, 5: stream)
--      part(0: replaces the key)
--      expires_at_ms(0: never)
--      values(MessagePack: as `Record.values` of a backup)]
-- REPLY ok | other
-- CHECKS FIRST that this mover has reserved the tag
-- include lib/clock.lua
-- include lib/namespaces/freezes.lua
local frozen_key = KEYS[1]
local now_ms, id, number = clock.now_ms(ARGV[1]), ARGV[2], ARGV[3]
local FIRST, WIDTH = 4, 4

local function write(key, kind, values)
  if kind == 2 then
    for n = 1, #values, 2 do redis.call('HSET', key, values[n], values[n + 1]) end
  elseif kind == 4 then
    for n = 1, #values, 2 do redis.call('ZADD', key, values[n + 1], values[n]) end
  elseif kind == 5 then
    for n = 1, #values, 2 do
      local entry = {'XADD', key, values[n]}
      for _, field in ipairs(values[n + 1]) do entry[#entry + 1] = field end
      redis.call(unpack(entry))
    end
  else
    local command = kind == 0 and 'APPEND' or kind == 1 and 'RPUSH' or 'SADD'
    for _, value in ipairs(values) do redis.call(command, key, value) end
  end
end

if not freezes.are_of(frozen_key, id, number) then return {'other'} end

for i = FIRST, #ARGV, WIDTH do
  local at = 2 + (i - FIRST) / WIDTH
  local key, kind, part, expires_at_ms = KEYS[at], tonumber(ARGV[i]), tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
  if part == 0 then redis.call('UNLINK', key) end
  write(key, kind, cmsgpack.unpack(ARGV[i + 3]))
  if expires_at_ms > 0 then redis.call('PEXPIRE', key, math.max(0, expires_at_ms - now_ms)) end
end
return {'ok'}
