#!lua flags=no-writes
-- Reads everything that names these jobs, all at one instant: their records, and the indexes, claims, slots and other
-- keys with their IDs.
-- KEYS results:zset rules:hash
-- ARGV now_ms tag head_bytes(how much of each record to read)
--   found_in(the index, claims or slots where the caller found these jobs; empty: none)
--   [+ id]
-- REPLY ok: for each job a list:
--     beginning of the record
--     [index, score]
--     [worker that holds it]
--     1 if its result exists
--     1 if `results` lists its result
--     1 if it has history, progress, challenges, a log or entries of predecessors
--     [gates, token of the slot that it has there]
--     [gates where it must have a slot]
--     1 if its lane exists
--     fault of its callbacks
--     fault of its predecessors
--     fault of its entry in the index of `expires_at`
-- CHECKS FIRST nothing, because it only reads
-- include lib/clock.lua
-- include lib/jobs/record.lua
-- include lib/constraints/slots.lua
-- include lib/lanes/lanes.lua
-- include lib/challenges/challenges.lua
-- include lib/jobs/dependents.lua
-- include lib/jobs/expiry.lua
local results_key, rules_key = KEYS[1], KEYS[2]
local now_ms, tag = clock.now_ms(ARGV[1]), ARGV[2]
local head_bytes, found_in = tonumber(ARGV[3]), ARGV[4]
local FIRST = 5
-- Maximum number of predecessors that are checked for one job.
local MAX_PREDECESSORS = 20
local index_of = layout.index

local function after(prefix)
  local full = tag .. prefix
  return string.sub(found_in, 1, #full) == full and string.sub(found_in, #full + 1) or nil
end
local found_lane, found_worker, found_gates = after('ready:'), after('claims:'), after('slots:')
local editions = redis.call('HMGET', rules_key, 'edition', 'settled')
local is_settled = (editions[1] or '0') == (editions[2] or '0')

local found = {}
for i = FIRST, #ARGV do
  local id = ARGV[i]
  local head = redis.pcall('GETRANGE', tag .. 'job:' .. id, 0, head_bytes - 1)
  if type(head) ~= 'string' then head = '?' end
  local inside, holders, has_slots, needs_slots, indexes, slot_lists = {}, {}, {}, {}, {}, {}
  local lane = nil
  for _, index in pairs(index_of) do indexes[tag .. index] = true end
  if found_lane then indexes[found_in] = true end
  if #head >= layout.head.length then
    lane = lanes.by_id(record.hex(record.lane_id_of(head)))
    indexes[tag .. 'ready:' .. lane.id] = true
    local whole = record.read_head(tag .. 'job:' .. id)
    if #lane.shared > 0 then slot_lists[table.concat(lane.shared)] = true end
    for _, list in ipairs({lane.keyed, #lane.keyed == 0 and whole ~= '' and record.own_gates(whole) or {}}) do
      for _, gate_id in ipairs(list) do slot_lists[gate_id] = true end
    end
  end
  local callback_fault = ''
  if #head >= layout.head.length and record.state_of(head) == layout.STATE.awaiting_callback then
    callback_fault = challenges.fault_of(id, record.read_head(tag .. 'job:' .. id))
  end
  local order_fault = ''
  if #head >= layout.head.length and record.state_of(head) == layout.STATE.awaiting_jobs then
    order_fault = dependents.fault_of(id, MAX_PREDECESSORS)
  end
  local expiry_fault = #head >= layout.head.length and expiry.fault_of(id, head, now_ms) or ''
  -- A deleted job may still have a log that waits to be archived.
  local waits_for_archive = #head == 0 and redis.call('ZSCORE', tag .. 'log_waits', id)
  local has_lost_dependents = #head == 0 and redis.call('EXISTS', tag .. 'dependents:' .. id) == 1
    and not redis.call('ZSCORE', tag .. 'follow_ups', 'order:' .. id)
  for key in pairs(indexes) do
    local score = redis.call('ZSCORE', key, id)
    if score then
      inside[#inside + 1] = key
      inside[#inside + 1] = score
    end
  end
  local suspects = {}
  if found_worker then suspects[found_worker] = true end
  if #head >= layout.head.length and record.worker_of(head) ~= layout.NO_ID then
    suspects[record.uuid_text(record.worker_of(head))] = true
  end
  for holder in pairs(suspects) do
    if redis.call('SISMEMBER', tag .. 'claims:' .. holder, id) == 1 then holders[#holders + 1] = holder end
  end
  if is_settled then
    for gates in pairs(slot_lists) do
      if slots.are_needed(gates) then needs_slots[#needs_slots + 1] = gates end
    end
  end
  if found_gates then slot_lists[found_gates] = true end
  for gates in pairs(slot_lists) do
    local token = redis.call('HGET', tag .. 'slots:' .. gates, id)
    if token then
      has_slots[#has_slots + 1] = gates
      has_slots[#has_slots + 1] = token
    end
  end
  found[#found + 1] = {head, inside, holders, redis.call('EXISTS', tag .. 'result:' .. id),
    redis.call('ZSCORE', results_key, id) and 1 or 0,
    redis.call('EXISTS', tag .. 'history:' .. id, tag .. 'progress:' .. id, tag .. 'challenges:' .. id,
      tag .. 'awaits:' .. id, not waits_for_archive and tag .. 'log:' .. id or tag .. 'history:' .. id)
      + (has_lost_dependents and 1 or 0),
    has_slots, needs_slots, lane and not lane.is_lost and 1 or 0, callback_fault, order_fault, expiry_fault}
end
return {'ok', found}
