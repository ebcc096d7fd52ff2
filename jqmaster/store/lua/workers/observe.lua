#!lua flags=allow-oom
-- Notes what another system said that it still admits at a gate until an instant. Lanes that are parked there are
-- opened, because it may admit more than it said before.
-- KEYS worker:hash observed:hash gates_due:zset
-- ARGV now_ms tag gate remaining(thousandths) for_ms wake_channel(empty: nobody to wake)
-- REPLY ok | unknown
-- CHECKS FIRST that the worker is registered
-- include lib/clock.lua
-- include lib/lanes/parking.lua
local worker_key, observed_key, gates_due_key = KEYS[1], KEYS[2], KEYS[3]
local now_ms, gate_id, remaining, for_ms, wake_channel = clock.now_ms(ARGV[1]), ARGV[3], ARGV[4], ARGV[5], ARGV[6]

if redis.call('EXISTS', worker_key) == 0 then return {'unknown'} end
local until_ms = now_ms + tonumber(for_ms)
redis.call('HSET', observed_key, gate_id, string.format('%s %.0f %.0f', remaining, until_ms, now_ms))
-- An earlier check of the gate stays, and finds the observation.
redis.call('ZADD', gates_due_key, 'NX', until_ms, gate_id)
if parking.open_all(parking.closed_among({gate_id})) and wake_channel ~= '' then
  redis.call('PUBLISH', wake_channel, 'ready')
end
return {'ok'}
