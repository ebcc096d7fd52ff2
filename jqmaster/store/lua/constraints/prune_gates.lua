#!lua flags=allow-oom
-- Removes the data of a constraint's idle gates, at which no job waits or runs. If the constraint was deleted, its own
-- data are removed together with its last gate.
-- KEYS epoch:string counted:set shadowed:hash gates:hash served:hash crowded:zset limits:hash conditions:hash
--     observed:hash
-- ARGV tag epoch cid cursor(0: from the start) limit(about how many gates to check)
-- REPLY ok:number of removed gates,cursor of the next call(0: done) | stale_epoch
-- CHECKS FIRST that the epoch is current
-- include lib/leadership.lua
local epoch_key, counted_key, shadowed_key = KEYS[1], KEYS[2], KEYS[3]
local gates_key, served_key, crowded_key, limits_key = KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local conditions_key, observed_key = KEYS[8], KEYS[9]
local tag, epoch, cid, cursor, limit = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local MAX_NAMED = 1000  -- Maximum number of gates in one command.

if not leadership.holds(epoch_key, epoch) then return {'stale_epoch'} end
local scanned, idle = redis.call('HSCAN', gates_key, cursor, 'COUNT', limit), {}
local found = scanned[2]
for i = 1, #found, 2 do
  local gate_id = found[i]
  -- A gate without a key has an entry in this hash only while jobs wait there.
  if string.sub(found[i + 1], 1, 2) == '0:' and
    redis.call('EXISTS', tag .. 'slots:' .. gate_id, tag .. 'starts:' .. gate_id,
      tag .. 'charges:' .. gate_id) == 0 then
    idle[#idle + 1] = gate_id
  end
end
for at = 1, #idle, MAX_NAMED do
  local last = math.min(at + MAX_NAMED - 1, #idle)
  redis.call('HDEL', gates_key, unpack(idle, at, last))
  redis.call('HDEL', served_key, unpack(idle, at, last))
  redis.call('HDEL', conditions_key, unpack(idle, at, last))
  redis.call('HDEL', observed_key, unpack(idle, at, last))
end
if redis.call('EXISTS', gates_key, limits_key) == 0 then
  redis.call('HDEL', observed_key, cid .. layout.NO_KEY)
  redis.call('SREM', counted_key, cid)
  redis.call('HDEL', shadowed_key, cid)
  redis.call('UNLINK', served_key, crowded_key, conditions_key)
end
return {'ok', #idle, scanned[1]}
