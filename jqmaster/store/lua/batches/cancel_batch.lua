#!lua
-- Cancels an incomplete batch. From now on, the batch takes no new members. The leader cancels its unfinished members.
-- KEYS batch:hash batches_due:zset
-- ARGV now_ms tag batch_id
-- REPLY ok | unknown | complete
-- CHECKS FIRST that the batch exists; that it is incomplete, or was canceled before
-- include lib/clock.lua
-- include lib/batches/batches.lua
local batch_key, due_key = KEYS[1], KEYS[2]
local now_ms, id = clock.now_ms(ARGV[1]), ARGV[3]

local values = redis.call('HMGET', batch_key, 'state', 'canceled_at_ms')
local state, canceled_at_ms = values[1], values[2] or ''
if not state then return {'unknown'} end
if state == 'complete' and canceled_at_ms == '' then return {'complete'} end
batches.cancel(id, now_ms, canceled_at_ms)
redis.call('ZREM', due_key, id)
batches.write(now_ms)
return {'ok'}
