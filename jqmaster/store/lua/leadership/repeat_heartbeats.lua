#!lua flags=allow-oom
-- Repeats a master's heartbeats in several shards. Returns the facts of each shard that `beat_master` evaluates, as one
-- text. As long as this text stays the same, the master needs no other answer. All keys of one kind are adjacent.
-- KEYS generation:string leader:string settings:hash identity:hash masters:zset
--   [+ generation:string leader:string settings:hash identity:hash masters:zset]
-- ARGV now_ms master_id
-- REPLY ok:
--     now_ms,
--     [facts](of each shard; empty: the shard does not list the master),
--     [time of the leader's last heartbeat](of each shard; -1: there is none; -2: the master itself holds the lock)
-- CHECKS FIRST nothing: this script never refuses
-- include lib/clock.lua
-- include lib/reading.lua
local now_ms, master_id = clock.now_ms(ARGV[1]), ARGV[2]
local NO_HEARTBEAT, OWN = -1, -2

local shards, score = #KEYS / 5, string.format('%.0f', now_ms)
local own = ':' .. master_id
-- MGET returns nil for a key of another type. Such a key counts as missing.
local found = redis.call('MGET', unpack(KEYS, 1, 2 * shards))
local versions = {}
reading.each_existing(KEYS, 2 * shards + 1, 3 * shards, function(at)
  local fields = reading.try('HMGET', KEYS[at], 'version', 'targets', 'namespaces') or {}
  versions[at - 2 * shards] = ' ' .. table.concat({fields[1] or '', fields[2] or '', fields[3] or ''}, ' ')
end)
reading.each_existing(KEYS, 3 * shards + 1, 4 * shards, function(at)
  local n = at - 3 * shards
  versions[n] = (versions[n] or '') .. ' identity ' .. (reading.try('HGET', KEYS[at], 'version') or '')
end)

local facts, seen_ms = {}, {}
for n = 1, shards do
  local masters_at = 4 * shards + n
  local masters_key, holder = KEYS[masters_at], found[shards + n] or ''
  -- Do not add a master that is not listed, because its description would be missing.
  if redis.pcall('ZADD', masters_key, 'XX', 'CH', score, master_id) == 1 then
    facts[n] = (found[n] or '') .. ' ' .. holder .. (versions[n] or '')
  else
    facts[n] = ''
  end
  if string.sub(holder, -#own) == own then
    seen_ms[n] = OWN
  else
    local leader_id = string.match(holder, '^[^:]*:[^:]*:(.*)$')
    seen_ms[n] = leader_id and tonumber(reading.try('ZSCORE', masters_key, leader_id) or NO_HEARTBEAT) or NO_HEARTBEAT
  end
end
return {'ok', now_ms, facts, seen_ms}
