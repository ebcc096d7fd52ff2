#!lua flags=allow-oom
-- Makes all data about these jobs agree with their records. Never changes a record. Removes the remaining data of a job
-- without a record.
-- KEYS epoch:string results:zset rules:hash damaged:set audit:stream
-- ARGV now_ms tag epoch
--   found_in(as inspect_jobs takes it)
--   lease_ms result_ttl_ms
--   wake_channel(empty: wake nobody)
--   audit_entry audit_max
--   [+ id]
-- REPLY ok:[id of each repaired job] | stale_epoch
-- CHECKS FIRST that the epoch is current;
--   for each job: that it is not set aside as damaged, and that its record can be read
-- include lib/clock.lua
-- include lib/leadership.lua
-- include lib/jobs/record.lua
-- include lib/constraints/gate_ids.lua
-- include lib/constraints/slots.lua
-- include lib/lanes/lanes.lua
-- include lib/lanes/parking.lua
-- include lib/lanes/lane_writes.lua
-- include lib/challenges/challenges.lua
-- include lib/jobs/dependents.lua
-- include lib/jobs/follow_ups.lua
-- include lib/logs/job_logs.lua
-- include lib/jobs/expiry.lua
-- include lib/identity/audit_log.lua
local epoch_key, results_key, rules_key, damaged_key, audit_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local now_ms, epoch, found_in, lease_ms = clock.now_ms(ARGV[1]), ARGV[3], ARGV[4], tonumber(ARGV[5])
local result_ttl_ms = tonumber(ARGV[6])
local tag = ARGV[2]
local wake_channel, audit_entry, audit_max = ARGV[7], ARGV[8], tonumber(ARGV[9])
local FIRST = 10
local MAX_PREDECESSORS = 20

if not leadership.holds(epoch_key, epoch) then return {'stale_epoch'} end
local index_of = layout.index
for state, index in pairs(index_of) do index_of[state] = tag .. index end
local editions = redis.call('HMGET', rules_key, 'edition', 'settled')
local is_settled = (editions[1] or '0') == (editions[2] or '0')
local function after(prefix)
  local full = tag .. prefix
  return string.sub(found_in, 1, #full) == full and string.sub(found_in, #full + 1) or nil
end
local found_lane, found_worker, found_gates = after('ready:'), after('claims:'), after('slots:')
local is_unfinished, is_waiting, is_timed = layout.is_unfinished, layout.is_waiting, layout.is_timed

local done, freed = {}, {}
local function free(gate_list, id)
  if redis.call('HEXISTS', tag .. 'slots:' .. gate_list, id) == 0 then return 0 end
  for _, gate_id in ipairs(gate_ids.split(gate_list)) do freed[#freed + 1] = gate_id end
  return slots.give_back(gate_list, {id})
end

-- Removes a job from a lane to which it does not belong. If the job has no record, the counts of the lane still include
-- it, and are lowered.
local function leave_found_lane(id, is_gone)
  if redis.call('EXISTS', tag .. 'lane:' .. found_lane) == 0 then
    return redis.call('ZREM', tag .. 'ready:' .. found_lane, id)
  end
  if not redis.call('ZSCORE', tag .. 'ready:' .. found_lane, id) then return 0 end
  local lane = lanes.by_id(found_lane)
  lanes.remove(lane, id)
  lane.has_moved = true
  if is_gone then lanes.count(lane, nil, -1, -1) end
  return 1
end

local function forget(id)
  local count = 0
  if redis.call('EXISTS', tag .. 'dependents:' .. id) == 1
    and not redis.call('ZSCORE', tag .. 'follow_ups', 'order:' .. id) then
    follow_ups.add('order', id)
    count = 1
  end
  for _, key in pairs(index_of) do count = count + redis.call('ZREM', key, id) end
  if found_lane then count = count + leave_found_lane(id, true) end
  if found_worker then count = count + redis.call('SREM', tag .. 'claims:' .. found_worker, id) end
  if found_gates then count = count + free(found_gates, id) end
  -- Keep a log that waits to be archived.
  if not redis.call('ZSCORE', tag .. 'log_waits', id) then
    if job_logs.forget(id) then count = count + 1 end
    count = count + redis.call('UNLINK', tag .. 'log:' .. id, tag .. 'logs:' .. id)
  end
  return count + redis.call('ZREM', tag .. 'expiring', id)
    + redis.call('ZREM', tag .. 'challenged', id)
    + redis.call('UNLINK', tag .. 'history:' .. id, tag .. 'progress:' .. id, tag .. 'challenges:' .. id,
      tag .. 'awaits:' .. id)
end

-- Puts a job into the index of its state, and removes it from all other indexes.
local function put_in_its_index(id, head, state)
  local count = 0
  for index_state, key in pairs(index_of) do
    if index_state ~= state then count = count + redis.call('ZREM', key, id) end
  end
  local own_lane = record.hex(record.lane_id_of(head))
  if found_lane and (state ~= layout.STATE.ready or found_lane ~= own_lane) then
    count = count + leave_found_lane(id, false)
  end
  local lane = is_unfinished[state] and lanes.by_id(own_lane, record.name_of(head)) or nil
  if lane and lane.is_lost then
    lanes.count(lanes.of(head), nil, 1, 0)
    count = count + 1
  end
  local own_key = tag .. 'ready:' .. own_lane
  if state == layout.STATE.ready then
    local priority = record.priority_of(head)
    if tonumber(redis.call('ZSCORE', own_key, id)) ~= priority then
      lanes.add(lane, priority, id)
      lane.has_moved = true
      count = count + 1
    end
    return count
  end
  if redis.call('ZSCORE', own_key, id) then
    if lane then
      lanes.remove(lane, id)
      lane.has_moved = true
    else
      redis.call('ZREM', own_key, id)
    end
    count = count + 1
  end
  if redis.call('ZSCORE', index_of[state], id) then return count end
  local score = state == layout.STATE.running and now_ms + lease_ms
    or is_waiting[state] and not is_timed[state] and record.int64(head, layout.created_at_ms.at)
    or record.int64(head, is_unfinished[state] and layout.due_at_ms.at or layout.finished_at_ms.at)
  redis.call('ZADD', index_of[state], score, id)
  return count + 1
end

-- Adds a running job to the claims of its worker, and removes it from the claims of other workers.
local function put_under_its_worker(id, head, state)
  local count = 0
  local worker = record.worker_of(head) ~= layout.NO_ID and record.uuid_text(record.worker_of(head)) or nil
  if found_worker and (state ~= layout.STATE.running or found_worker ~= worker) then
    count = redis.call('SREM', tag .. 'claims:' .. found_worker, id)
  end
  if not worker then return count end
  return count + redis.call(state == layout.STATE.running and 'SADD' or 'SREM', tag .. 'claims:' .. worker, id)
end

local function put_slots_right(id, head, state)
  local lane, own, count, gate_lists = lanes.by_id(record.hex(record.lane_id_of(head))), record.own_gates(head), 0, {}
  if #lane.shared > 0 then gate_lists[table.concat(lane.shared)] = true end
  for _, gate_id in ipairs(#lane.keyed > 0 and lane.keyed or own or {}) do gate_lists[gate_id] = true end
  local token = record.token_of(head)
  local holds_slots = state == layout.STATE.running or state == layout.STATE.awaiting_callback
  for gate_list in pairs(gate_lists) do
    local held = redis.call('HGET', tag .. 'slots:' .. gate_list, id)
    -- Compare tokens of running jobs only. No worker runs a job that awaits its callback, so its token may be void.
    local is_foreign = held and held ~= token and state == layout.STATE.running
    if not holds_slots then
      count = count + free(gate_list, id)
    elseif is_foreign or not held and is_settled and slots.are_needed(gate_list) then
      slots.take(gate_list, {id, token})
      count = count + 1
    end
  end
  if found_gates and not gate_lists[found_gates] and (not holds_slots
    or redis.call('HGET', tag .. 'slots:' .. found_gates, id) ~= token) then
    count = count + free(found_gates, id)
  end
  return count
end

-- Offers a job to workers if its callbacks have arrived. If they have not, withdraws the offer.
local function put_callbacks_right(id, head, state)
  if state ~= layout.STATE.awaiting_callback or challenges.fault_of(id, head) == '' then return 0 end
  local challenge = challenges.open_one(id, head)
  -- Without a challenge, nothing can be repaired. The job ends at its deadline.
  if not challenge then return 0 end
  challenges.withdraw(id, head)
  if challenges.is_answered(challenge) then challenges.offer(id, head, challenge, now_ms) end
  return 1
end

-- If a waiting job would never start, makes it wait for its predecessors again, and lists it among their dependents.
local function put_order_right(id, key, head, state)
  if state ~= layout.STATE.awaiting_jobs or dependents.fault_of(id, MAX_PREDECESSORS) == '' then return 0 end
  return dependents.wait_again(id, key, head) and 1 or 0
end

local function keep_or_forget_result(id)
  local has_result = redis.call('EXISTS', tag .. 'result:' .. id) == 1
  local ends = redis.call('ZSCORE', results_key, id)
  if has_result and not ends then return redis.call('ZADD', results_key, now_ms + result_ttl_ms, id) end
  return not has_result and ends and redis.call('ZREM', results_key, id) or 0
end

for i = FIRST, #ARGV do
  local id = ARGV[i]
  local key = tag .. 'job:' .. id
  local count = 0
  if redis.call('SISMEMBER', damaged_key, id) == 1 then
    count = 0
  elseif redis.call('EXISTS', key) == 0 then
    count = forget(id) + keep_or_forget_result(id)
  else
    local head = record.read_head(key)
    local state = record.state_of(head)
    if string.byte(head, layout.version.at) == layout.VERSION and (state == layout.STATE.ready or index_of[state]) then
      count = put_in_its_index(id, head, state) + put_under_its_worker(id, head, state)
        + put_slots_right(id, head, state) + put_callbacks_right(id, head, state)
        + put_order_right(id, key, head, state) + expiry.put_right(id, head, now_ms) + keep_or_forget_result(id)
    end
  end
  if count > 0 then done[#done + 1] = id end
end
lane_writes.write(nil)
follow_ups.write()
parking.open_all(parking.closed_among(freed))
if #done > 0 then
  audit_log.write(audit_key, now_ms, audit_entry, audit_max)
  if wake_channel ~= '' then
    redis.call('PUBLISH', wake_channel, 'ready')
    redis.call('PUBLISH', wake_channel, 'due')
  end
end
return {'ok', done}
