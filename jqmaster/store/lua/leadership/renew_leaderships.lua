#!lua flags=allow-oom
-- Extends the leader's locks of several shards if the caller holds them. All `leader` keys come first, then all
-- `demoted` keys.
-- KEYS leader:string demoted:string [+ leader:string demoted:string]
-- ARGV master_id holder ttl_ms [+ holder ttl_ms]
-- REPLY ok:[outcome](of each shard). Outcomes:
--     0: extended
--     1: the caller does not hold the lock
--     2: the caller was demoted
--     3: the lock cannot be read
-- CHECKS FIRST for each shard that the caller holds the lock and was not demoted
local master_id = ARGV[1]
local EXTENDED, LOST, DEMOTED, UNREADABLE = 0, 1, 2, 3
local FIRST, WIDTH = 4, 2

local shards = #KEYS / 2
local found = redis.call('MGET', unpack(KEYS))
local outcomes = {}
for n = 1, shards do
  local at, leader_key = FIRST + (n - 2) * WIDTH, KEYS[n]
  local holder, ttl_ms = ARGV[at], ARGV[at + 1]
  if found[n] == holder and found[shards + n] ~= master_id then
    redis.call('PEXPIRE', leader_key, ttl_ms)
    outcomes[n] = EXTENDED
  elseif found[n] == holder then
    outcomes[n] = DEMOTED
  else
    -- MGET also finds no lock if the lock has another type. GET then returns an error. Such a lock cannot be read, but
    -- no other master has taken the lead.
    local lock = found[n] or redis.pcall('GET', leader_key)
    outcomes[n] = type(lock) == 'table' and UNREADABLE or LOST
  end
end
return {'ok', outcomes}
