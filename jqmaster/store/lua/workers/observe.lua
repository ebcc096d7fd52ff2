#!lua flags=allow-oom
-- Records a worker's observation at a gate: how much another system still admits, and until when. Opens the lanes that
-- are parked there, because the other system may admit more than before. An observation that was delayed at a master
-- does not replace a later one.
-- KEYS worker:hash observed:hash gates_due:zset
-- ARGV now_ms tag gate
--   remaining(how much the other system still admits, in thousandths)
--   for_ms(how long the observation holds, from as_of_ms)
--   as_of_ms(when the worker observed it, or earlier; 0: now)
--   wake_channel(empty: wake nobody)
-- REPLY ok | outdated | unknown
-- CHECKS FIRST that the worker is registered, and that no later observation of the gate is stored
-- include lib/clock.lua
-- include lib/constraints/charges.lua
-- include lib/lanes/parking.lua
local worker_key, observed_key, gates_due_key = KEYS[1], KEYS[2], KEYS[3]
local now_ms, gate_id, remaining, for_ms = clock.now_ms(ARGV[1]), ARGV[3], ARGV[4], tonumber(ARGV[5])
local as_of_ms, wake_channel = tonumber(ARGV[6]), ARGV[7]

if redis.call('EXISTS', worker_key) == 0 then return {'unknown'} end
-- Treat a time in the future as now. After the store's clock was set back, a worker may report such a time.
if as_of_ms == 0 or as_of_ms > now_ms then as_of_ms = now_ms end
local stored = redis.call('HGET', observed_key, gate_id)
-- The last number of the stored text is its `as_of_ms`. In the text of an older release, another time stands there.
local stored_at_ms = tonumber(string.match(stored or '', ' (%d+)$') or 0)
if stored_at_ms > as_of_ms and stored_at_ms <= now_ms then return {'outdated'} end
local until_ms = as_of_ms + for_ms
-- Subtract the starts since then, because the other system may not have counted them yet. Claims subtract later starts.
local left = tonumber(remaining) - charges.started_since(gate_id, as_of_ms)
redis.call('HSET', observed_key, gate_id, string.format('%.0f %.0f %.0f %.0f', left, until_ms, now_ms, as_of_ms))
-- A gate has only one scheduled check. Keep an earlier one, which will also find this observation.
redis.call('ZADD', gates_due_key, 'NX', until_ms, gate_id)
if parking.open_all(parking.closed_among({gate_id})) and wake_channel ~= '' then
  redis.call('PUBLISH', wake_channel, 'ready')
end
return {'ok'}
