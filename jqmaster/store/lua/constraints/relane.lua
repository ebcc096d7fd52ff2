#!lua flags=allow-oom
-- Moves unfinished jobs to their lanes under this edition of the constraints. A running job takes slots at the gates of
-- its new lane, even if these gates have no room.
-- KEYS epoch:string rules:hash damaged:set
-- ARGV now_ms tag epoch edition
--   lanes(format: lib/lanes/homes.lua)
--   read(whole: read whole records; beginnings: read only their beginnings)
--   homes(10 bytes for each job: the ID of its old lane, 8 bytes;
--       the number of its new lane from 1, u16; 0: its record cannot be read)
--   extras(MessagePack: new extras of records by number of the job, from 1; empty: no record gets new extras)
--   [+ id(each only once)]
-- REPLY ok:number of moved jobs | stale_epoch | stale_constraints
-- CHECKS FIRST that the epoch is current;
--   that the edition of the constraints is current;
--   the state and the lane of each job
-- include lib/clock.lua
-- include lib/leadership.lua
-- include lib/jobs/record.lua
-- include lib/constraints/waiting.lua
-- include lib/constraints/passing.lua
-- include lib/lanes/lanes.lua
-- include lib/lanes/lane_writes.lua
-- include lib/lanes/homes.lua
-- include lib/constraints/slots.lua
-- include lib/constraints/gate_ids.lua
-- include lib/constraints/charges.lua
-- include lib/constraints/weights.lua
-- include lib/challenges/challenges.lua
local epoch_key, rules_key, damaged_key = KEYS[1], KEYS[2], KEYS[3]
local now_ms, epoch, edition, definitions = clock.now_ms(ARGV[1]), ARGV[3], ARGV[4], homes.read(ARGV[5])
local tag, read, places = ARGV[2], ARGV[6], ARGV[7]
local packed_extras = ARGV[8]
local FIRST = 9
local PLACE_LENGTH = 10
local extras = packed_extras ~= '' and cmsgpack.unpack(packed_extras) or {}
local is_unfinished = layout.is_unfinished
local READY = layout.STATE.ready
local byte, sub, read_place, in_places = string.byte, string.sub, struct.unpack, '>c8I2'
local checked_head, own_gates = record.checked_head, record.own_gates
local count, add = lanes.count, lanes.add
local rewritten, home_by_number = homes.rewritten, homes.of

-- Returns whether the running attempt has handed its work over to another system.
local function is_handed_over(id, head)
  local challenge = challenges.open_one(id, head)
  return challenge and challenge.since ~= nil
end

-- Returns the charges that a running job has at its new gates; nil if none of these gates can have charges. The charges
-- stay the same even if the weight of the job has changed.
local function kept_charges(id, ...)
  local kept
  for _, ids in ipairs({...}) do
    for _, gate_id in ipairs(ids) do
      if gate_ids.may_have_charges(gate_id) then
        kept = kept or {}
        kept[gate_id] = charges.entry_at(gate_id, id)
      end
    end
  end
  return kept
end

if not leadership.holds(epoch_key, epoch) then return {'stale_epoch'} end
if (redis.call('HGET', rules_key, 'edition') or '0') ~= edition then return {'stale_constraints'} end
edition = tonumber(edition)
local moved, running, keys, written, filled = 0, {}, {}, {}, 0
-- Counts consecutive jobs with the same old lane and the same new lane together, because most neighbours have the same
-- lanes.
local old, old_lane_bytes
local from, to, together = nil, nil, 0
local function count_neighbours()
  if together > 0 then
    count(from, nil, -together, -together)
    count(to, nil, together, together)
  end
  together = 0
end

for i = FIRST, #ARGV do keys[i - FIRST + 1] = tag .. 'job:' .. ARGV[i] end
-- Read short records with one command, which takes a fraction of the time of single reads. Long records are read one by
-- one, without their arguments.
local records = read == 'whole' and redis.call('MGET', unpack(keys))
for i = 1, #keys do
  local id, key = ARGV[FIRST + i - 1], keys[i]
  local old_bytes, number = read_place(in_places, places, (i - 1) * PLACE_LENGTH + 1)
  local head, gates_at, behind
  if records then
    head, gates_at, behind = checked_head(records[i] or '')
  else
    head, gates_at, behind = record.read_head(key)
  end
  local state = byte(head, layout.state.at)
  local is_there = gates_at and sub(head, layout.lane_id.at, layout.lane_id.last) == old_bytes and is_unfinished[state]
  local may_be_ready = number > 0 and is_there and state == READY
  if not may_be_ready and redis.call('ZSCORE', tag .. 'ready:' .. record.hex(old_bytes), id) then
    local found_in = lanes.by_id(record.hex(old_bytes))
    lanes.remove(found_in, id)
    if not found_in.is_lost then
      count(found_in, is_there and #found_in.keyed == 0 and own_gates(head) or nil, -1, -1)
    end
    redis.call('SADD', damaged_key, id)
    moved = moved + 1
  elseif number > 0 and is_there then
    if old_bytes ~= old_lane_bytes then old, old_lane_bytes = lanes.of(head), old_bytes end
    local old_own = byte(head, gates_at) > 0 and #old.keyed == 0 and own_gates(head) or nil
    local lane, own = home_by_number(definitions, number, edition)
    if old ~= lane then
      -- A job that awaits its callback holds its slots like a running one.
      local holds_slots = state == layout.STATE.running or state == layout.STATE.awaiting_callback
      local kept = holds_slots and kept_charges(id, lane.shared, own or lane.keyed)
      local its_extras = kept and (extras[i] or record.extras_of(key, head))
      if records or #head < layout.longest_beginning then
        written[filled + 1], written[filled + 2] = key,
          rewritten(head, lane, definitions[number].bytes, gates_at, behind, extras[i])
        filled = filled + 2
      else
        homes.write(key, head, lane, definitions[number].bytes, extras[i])
      end
      if holds_slots then
        count(old, old_own, -1, 0)
        count(lane, own, 1, 0)
        lanes.free(old, old_own, id)
        local token_bytes, begun_ms = record.token_of(head), record.int64(head, layout.started_at_ms.at)
        running[#running + 1] = {gates = {lane.shared, own or lane.keyed}, holder = {id, token_bytes},
          begun = {begun_ms, token_bytes}, is_handed_over = is_handed_over(id, head),
          kept = kept, extras = its_extras}
      else
        if old ~= from or lane ~= to then
          count_neighbours()
          from, to = old, lane
        end
        together = together + 1
        if old_own then waiting.add(old_own, -1) end
        if own then waiting.add(own, 1) end
        if state == READY then
          -- Do not call `lanes.remove`, because `count_neighbours` already marks the lanes as changed.
          local removed = old.removed
          removed[#removed + 1] = id
          add(lane, read_place('>i4', head, layout.priority.at), id)
        end
      end
      moved = moved + 1
    end
  end
end
count_neighbours()
if filled > 0 then redis.call('MSET', unpack(written)) end
lane_writes.write(nil)
-- Take the new slots after the old ones are free, because the old lane and the new lane may share gates.
for _, claim in ipairs(running) do
  for _, ids in ipairs(claim.gates) do
    if claim.kept then
      passing.charge(ids, weights.of_extras(claim.extras), claim.holder[1], claim.holder[2], claim.begun[1], now_ms,
        claim.kept)
    end
    passing.pass(ids, claim.holder, claim.begun, now_ms)
  end
end
if #running > 0 then passing.write(now_ms) end
for _, claim in ipairs(running) do
  if claim.is_handed_over then
    slots.hand_over({table.concat(claim.gates[1]), unpack(claim.gates[2])}, claim.holder[1])
  end
end
return {'ok', moved}
