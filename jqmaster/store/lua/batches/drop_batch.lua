#!lua
-- Removes a batch that a call created but never filled. Starts no callback.
-- KEYS batch:hash
-- ARGV now_ms tag batch_id filled_by(ID of the call)
-- REPLY ok | kept
-- CHECKS FIRST that no newer call fills the batch, and that the batch never had a member
-- include lib/clock.lua
-- include lib/batches/batches.lua
local batch_key = KEYS[1]
local now_ms, id, filled_by = clock.now_ms(ARGV[1]), ARGV[3], ARGV[4]

if redis.call('HGET', batch_key, 'filled_by') ~= filled_by or not batches.is_unfilled(id) then return {'kept'} end
batches.drop(id)
batches.write(now_ms)
return {'ok'}
