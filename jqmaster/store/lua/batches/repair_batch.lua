#!lua
-- Replaces the counts of a batch with the given ones, which the caller took from the records of its members. Then
-- repeats the effects of the batch's state, such as its callbacks. Changes nothing if the batch has changed since the
-- count.
-- KEYS epoch:string audit:stream
-- ARGV now_ms tag epoch batch_id
--   changes(the batch's number of changes when the caller counted its members)
--   counts(MessagePack: number by name of the count)
--   audit_entry audit_max
--   [+ id(of a member without a record)]
-- REPLY ok:is_repaired(0: the batch has changed since) | stale_epoch
-- CHECKS FIRST that the epoch is current, then whether the batch has changed
-- include lib/clock.lua
-- include lib/leadership.lua
-- include lib/lists.lua
-- include lib/batches/batches.lua
-- include lib/jobs/follow_ups.lua
-- include lib/identity/audit_log.lua
local epoch_key, audit_key = KEYS[1], KEYS[2]
local now_ms, epoch, id, changes, counts = clock.now_ms(ARGV[1]), ARGV[3], ARGV[4], ARGV[5], cmsgpack.unpack(ARGV[6])
local audit_entry, audit_max = ARGV[7], tonumber(ARGV[8])
local tag = ARGV[2]
local FIRST = 9

if not leadership.holds(epoch_key, epoch) then return {'stale_epoch'} end
local key = tag .. 'batch:' .. id
if redis.call('HGET', key, 'changes') ~= changes then return {'ok', 0} end
local missing = {}
for i = FIRST, #ARGV do missing[#missing + 1] = ARGV[i] end
lists.call('ZREM', tag .. 'batch_members:' .. id, missing)
for field, count in pairs(counts) do redis.call('HSET', key, field, count) end
for _, callback in ipairs({'on_success', 'on_complete', 'on_failure'}) do
  if redis.call('HGET', key, callback) == 'due' then follow_ups.add('batch', id) end
end
batches.touch(id)
batches.write(now_ms)
audit_log.write(audit_key, now_ms, audit_entry, audit_max)
return {'ok', 1}
