#!lua flags=allow-oom
-- Records a master's heartbeat, and facts about the master. Removes masters that have been silent for `forget_ms`.
-- Returns the data that every master follows: the versions of settings, targets, namespaces and identity, the mark of
-- the data, and which master leads.
-- KEYS masters:zset master_info:hash settings:hash identity:hash generation:string leader:string
-- ARGV now_ms master_id
--   info(description of the master)
--   forget_ms max_masters
-- REPLY ok:
--     number of removed masters,now_ms,
--     [settings version,targets version,namespaces version],
--     identity version,
--     mark(empty: it is gone),
--     holder of the lock(empty: it is free),
--     time of the leader's last heartbeat(-1: there is none)
-- CHECKS FIRST nothing: this script never refuses
-- include lib/clock.lua
-- include lib/reading.lua
local masters_key, info_key, settings_key, identity_key, generation_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local leader_key = KEYS[6]
local now_ms, master_id, info, forget_ms = clock.now_ms(ARGV[1]), ARGV[2], ARGV[3], tonumber(ARGV[4])
local max_masters = tonumber(ARGV[5])
local MAX_REMOVED = 100

-- Read the masters that have been silent longest. These are usually all masters. If a jump of the clock removes a
-- living master, its next heartbeat adds it again.
local oldest = redis.call('ZRANGE', masters_key, 0, MAX_REMOVED - 1, 'WITHSCORES')
local are_all = #oldest < 2 * MAX_REMOVED
local surplus = (are_all and #oldest / 2 or redis.call('ZCARD', masters_key)) - max_masters
-- Write the facts only if they have changed, so that most heartbeats add nothing to the append-only file.
if redis.call('HGET', info_key, master_id) ~= info then redis.call('HSET', info_key, master_id, info) end
redis.call('ZADD', masters_key, now_ms, master_id)
local removed, all_seen_ms = 0, {}
for at = 1, #oldest, 2 do
  local id, seen_ms = oldest[at], tonumber(oldest[at + 1])
  if id ~= master_id and (seen_ms <= now_ms - forget_ms or removed < surplus) then
    redis.call('ZREM', masters_key, id)
    redis.call('HDEL', info_key, id)
    removed = removed + 1
  else
    all_seen_ms[id] = seen_ms
  end
end
all_seen_ms[master_id] = now_ms
local versions = reading.try('HMGET', settings_key, 'version', 'targets', 'namespaces') or {}
local numbers = {tonumber(versions[1] or 0), tonumber(versions[2] or 0), tonumber(versions[3] or 0)}
-- MGET returns nil for a key of another type. Such a key counts as missing.
local marked = redis.call('MGET', generation_key, leader_key)
local mark, holder = marked[1] or '', marked[2] or ''
local leader_id = string.match(holder, '^[^:]*:[^:]*:(.*)$')
local seen_ms = leader_id and (all_seen_ms[leader_id] or (not are_all and redis.call('ZSCORE', masters_key, leader_id)))
return {'ok', removed, now_ms, numbers, tonumber(reading.try('HGET', identity_key, 'version') or 0), mark, holder,
  math.floor(tonumber(seen_ms or -1))}
