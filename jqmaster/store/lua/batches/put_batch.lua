#!lua
-- Creates an open batch. A repeat of the same request changes nothing.
-- KEYS batch:hash batches:zset batches_due:zset rules:hash
-- ARGV now_ms tag batch_id spec
--   parent(ID of the parent batch; empty: none)
--   expires_at_ms(0: `life_ms` from now)
--   life_ms(used if `expires_at_ms` is 0)
--   callbacks(MessagePack: list of their names)
--   max_depth(maximum number of nested levels)
--   mark(expected mark of the data; empty: do not check)
--   filled_by(ID of the call that fills and seals it; empty: none)
--   asked_ms(`expires_at` of the client's request; 0: none)
-- REPLY ok | known | taken | expired:now_ms | parent:reason(unknown, over or too_deep) | other_data
-- CHECKS FIRST that the mark of the data matches;
--   that no batch with this ID has another spec;
--   that the batch has not expired;
--   that the parent takes new members
-- include lib/clock.lua
-- include lib/lists.lua
-- include lib/batches/batches.lua
local batch_key, batches_key, due_key, rules_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local now_ms, id, spec, parent = clock.now_ms(ARGV[1]), ARGV[3], ARGV[4], ARGV[5]
local expires_at_ms, life_ms, callbacks = tonumber(ARGV[6]), tonumber(ARGV[7]), cmsgpack.unpack(ARGV[8])
local max_depth, mark, filled_by, asked_ms = tonumber(ARGV[9]), ARGV[10], ARGV[11], tonumber(ARGV[12])
local tag = ARGV[2]

if mark ~= '' and redis.call('HGET', rules_key, 'mark') ~= mark then return {'other_data'} end
local present = redis.call('HGET', batch_key, 'spec')
if present then
  -- Write again on a repeated call. WAIT covers only writes of its own connection, and the write of the first call may
  -- never have reached the replicas.
  if present ~= spec then return {'taken'} end
  redis.call('HSET', batch_key, 'spec', spec)
  -- While the batch is unsealed, only the newest call that fills it may drop it.
  if redis.call('HEXISTS', batch_key, 'filled_by') == 1 then
    if filled_by ~= '' then redis.call('HSET', batch_key, 'filled_by', filled_by)
    else redis.call('HDEL', batch_key, 'filled_by') end
  end
  return {'known'}
end
if asked_ms > 0 and asked_ms <= now_ms then return {'expired', now_ms} end
if parent ~= '' then
  local refusal = batches.refusal(parent)
  if refusal then return {'parent', refusal} end
  local above = parent
  for depth = 2, max_depth do
    above = redis.call('HGET', tag .. 'batch:' .. above, 'parent') or ''
    if above == '' then break end
    if depth == max_depth then return {'parent', 'too_deep'} end
  end
end
if expires_at_ms == 0 then expires_at_ms = now_ms + life_ms end
local fields = {'spec', spec, 'state', 'open', 'total', 0, 'batches', 0, 'parent', parent, 'changes', 0,
  'created_at_ms', string.format('%.0f', now_ms), 'expires_at_ms', string.format('%.0f', expires_at_ms)}
for _, callback in ipairs(callbacks) do
  fields[#fields + 1] = callback
  fields[#fields + 1] = 'waiting'
end
if filled_by ~= '' then lists.add_pair(fields, 'filled_by', filled_by) end
redis.call('HSET', batch_key, unpack(fields))
redis.call('ZADD', batches_key, now_ms, id)
redis.call('ZADD', due_key, expires_at_ms, id)
if parent ~= '' then
  redis.call('SADD', tag .. 'batch_children:' .. parent, id)
  batches.add(parent, 'batches', 1)
  batches.write(now_ms)
end
return {'ok'}
