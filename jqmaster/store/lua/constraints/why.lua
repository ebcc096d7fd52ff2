#!lua flags=no-writes
-- Reads why a job waits, all at one instant: the state of its gates as a claim would see them, and the number of jobs
-- that start before it.
-- KEYS rules:hash leader:string running:zset
-- ARGV now_ms tag job_id head_bytes(how much of its record to read)
--   max_holders(maximum number of holders shown for each closed gate)
--   max_lanes(maximum number of lanes to check)
--   is_keyed(1: jobs of the same lane may have different keyed gates)
--   [+ name(its jobs may start before this job)]
-- REPLY ok:
--     now_ms, beginning of the record, 1 if a master leads,
--     edition, edition in force, edition of its lane(-1: unknown),
--     when its lease or the time for its run ends, in ms(-1: it is not running),
--     for each gate a list:
--       gate, key value, waiting jobs, 1 if closed, 1 if its value has an override,
--       [name and value of each number],
--       [job, since_ms, worker_id_bytes](of some holders of slots),
--     1 if the job is ready,
--     [name, number of its jobs that start before this job],
--     accuracy of these numbers(0: exact, 1: lower bounds, 2: approximate),
--     fault(why claims cannot find this ready job; empty: they can)
--   | unknown
-- CHECKS FIRST that the job exists
-- include lib/clock.lua
-- include lib/jobs/record.lua
-- include lib/constraints/slots.lua
-- include lib/constraints/gates.lua
-- include lib/constraints/waiting.lua
-- include lib/constraints/weights.lua
-- include lib/constraints/weighing.lua
-- include lib/constraints/limit_kinds.lua
-- include lib/lanes/lanes.lua
-- include lib/lanes/turns.lua
-- include lib/lanes/lane_faults.lua
-- include lib/lanes/jobs_ahead.lua
local rules_key, leader_key, running_key = KEYS[1], KEYS[2], KEYS[3]
local now_ms, job_id, head_bytes, max_holders = clock.now_ms(ARGV[1]), ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local max_lanes, is_keyed = tonumber(ARGV[6]), ARGV[7] == '1'
local tag = ARGV[2]
local FIRST = 8
-- How many records of slot holders may be read: in one call, and at one gate.
local MAX_HEADS, MAX_HELD = 500, 100

local head = record.beginning(tag .. 'job:' .. job_id, head_bytes)
if #head == 0 and redis.call('EXISTS', tag .. 'job:' .. job_id) == 0 then return {'unknown'} end
local state = record.state_of(head)
local WAITING = layout.is_waiting
local is_waiting = WAITING[state]
local whole = record.read_head(tag .. 'job:' .. job_id)
local editions = redis.call('HMGET', rules_key, 'edition', 'settled')
local edition = tonumber(editions[1] or 0)
local lane = whole ~= '' and lanes.by_id(record.hex(record.lane_id_of(whole)))


local heads_read = 0
local function add_holders(ids, key)
  if redis.call('HLEN', key) <= MAX_HELD then
    for _, id in ipairs(redis.call('HKEYS', key)) do ids[#ids + 1] = id end
  else
    for n, part in ipairs(redis.call('HSCAN', key, 0, 'COUNT', MAX_HELD)[2]) do
      if n % 2 == 1 then ids[#ids + 1] = part end
    end
  end
end

local function holders_of(gate_id)
  local ids = {}
  for _, gate_list in ipairs(slots.kept_under(gate_id)) do
    if #ids < MAX_HELD then add_holders(ids, tag .. 'slots:' .. gate_list) end
  end
  local found = {}
  for n = 1, math.min(#ids, MAX_HELD, MAX_HEADS - heads_read) do
    local holder = record.beginning(tag .. 'job:' .. ids[n], layout.worker_id.last)
    heads_read = heads_read + 1
    if #holder == layout.worker_id.last then
      found[#found + 1] = {ids[n], record.int64(holder, layout.started_at_ms.at), record.worker_of(holder)}
    end
  end
  table.sort(found, function(a, b) return a[2] < b[2] or (a[2] == b[2] and a[1] < b[1]) end)
  local flat = {}
  for n = 1, math.min(#found, max_holders) do
    for part = 1, 3 do flat[#flat + 1] = found[n][part] end
  end
  return flat
end

-- Returns the numbers and flags of a gate as a flat list of names and values. Leaves out flags that are not set.
local function figures_of(gate)
  local flat = {}
  for name, value in pairs(gate) do
    if value == true then value = 1 end
    if type(value) == 'number' then
      flat[#flat + 1] = name
      flat[#flat + 1] = string.format('%.0f', value)
    end
  end
  return flat
end

-- Returns whether a gate that counts units has too little room for this job.
local own_weights, own_place
local function is_closed_to_job(gate)
  own_weights = own_weights or weights.of_extras(record.extras_of(tag .. 'job:' .. job_id, whole))
  gate.weight, gate.is_weight_found = weights.at(gate, own_weights)
  gate.running = slots.used(gate.id)
  own_place = own_place or {id = job_id, score = record.priority_of(whole),
    order = turns.order_of(lane, job_id) .. lane.id}
  local is_held_back = weighing.holds_back(gate, gate.weight, own_place)
  if is_held_back then gate.noted = gate.kept.need end
  gate.needed = math.max(gate.weight, gate.noted or 0)
  local is_closed = (gate.shadow_room or gate.room) <= 0 or not weighing.fits(gate, gate.weight) or is_held_back
  if is_closed and not gate.is_shadow then gate.due_ms = limit_kinds.opening_of(gate) end
  return is_closed
end

local passed, found_gates = {}, {}
if lane and lane.edition == edition and (is_waiting or state == layout.STATE.running
  or state == layout.STATE.awaiting_callback) then
  for _, list in ipairs({lane.shared, #lane.keyed == 0 and record.own_gates(whole) or lane.keyed}) do
    for _, id in ipairs(list) do
      local gate = gates.of(id, now_ms)
      passed[#passed + 1], passed[id] = id, true
      local is_closed = (gate.shadow_room or gate.room) <= 0
      local is_full = gate.concurrency and gate.running >= gate.concurrency
      if gate.weight_default then
        is_closed = is_closed_to_job(gate)
        is_full = is_closed and gate.running_left and math.min(gate.needed, gate.running_most) > gate.running_left
      end
      local waiting_jobs, text = waiting.at(id)
      found_gates[#found_gates + 1] = {id, text or '', waiting_jobs, is_closed and 1 or 0,
        gate.condition and 1 or redis.call('HEXISTS', tag .. 'overrides:' .. gate.cid, id), figures_of(gate),
        is_full and is_waiting and holders_of(id) or {}}
    end
  end
end


-- Returns the job's own queue first, then the other queues with jobs that may start before it.
local function names_before()
  local own_name = lane.queue
  local names, is_listed = {own_name}, {[own_name] = true}
  for i = FIRST, #ARGV do
    if not is_listed[ARGV[i]] then names[#names + 1], is_listed[ARGV[i]] = ARGV[i], true end
  end
  table.sort(names, function(a, b) return a == own_name and b ~= own_name or (b ~= own_name and a < b) end)
  return names
end

local fault, ahead, bound = '', nil, 0
if state == layout.STATE.ready and lane then
  local is_listed = redis.call('ZSCORE', tag .. 'ready:' .. lane.id, job_id)
  fault = is_listed and lane_faults.of(lane.id, edition) or 'is not in the list of its lane'
  if fault == '' and lane.edition == edition then
    local job = {id = job_id, lane = lane, passed = passed, edition = edition, is_keyed = is_keyed,
      max_lanes = max_lanes}
    ahead, bound = jobs_ahead.count(job, names_before(), now_ms)
  end
end
return {'ok', now_ms, head, redis.call('EXISTS', leader_key), edition, tonumber(editions[2] or 0),
  lane and lane.edition or -1, tonumber(redis.call('ZSCORE', running_key, job_id) or -1), found_gates,
  ahead and 1 or 0, ahead or {}, bound or 0, fault}
