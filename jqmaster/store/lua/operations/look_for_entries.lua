#!lua flags=no-writes
-- Checks several shards in which `look_at_shard` has found no entries: none of its keys existed, except `epoch` and
-- `rules`.
-- Returns whether this is still so in each shard. All keys of one kind are adjacent.
-- KEYS epoch:string rules:hash workers:zset ready_counts:hash [+ due:zset waiting:set]
-- ARGV now_ms kinds(number of keys of each shard)
-- REPLY ok:
--     now_ms,
--     for each shard a text: epoch, version of the constraints, edition, edition in force(empty: it has entries)
-- CHECKS FIRST nothing: the caller compares the epochs
-- include lib/clock.lua
-- include lib/reading.lua
local now_ms, kinds = clock.now_ms(ARGV[1]), tonumber(ARGV[2])

local shards = #KEYS / kinds
local epochs = redis.call('MGET', unpack(KEYS, 1, shards))
local have_entries = redis.call('EXISTS', unpack(KEYS, 2 * shards + 1)) > 0

-- Returns whether shard `n` has any key other than `epoch` and `rules`.
local function has_entries(n)
  local keys = {}
  for at = 2 * shards + n, #KEYS, shards do keys[#keys + 1] = KEYS[at] end
  return redis.call('EXISTS', unpack(keys)) > 0
end

local facts = {}
for n = 1, shards do
  local rules_at = shards + n
  if have_entries and has_entries(n) then
    facts[n] = ''
  else
    local found = reading.try('HMGET', KEYS[rules_at], 'version', 'edition', 'settled') or {}
    facts[n] = (epochs[n] or '') .. ' ' .. (found[1] or '0') .. ' ' .. (found[2] or '0') .. ' ' .. (found[3] or '0')
  end
end
return {'ok', now_ms, facts}
