-- include lib/lazily.lua
-- include lib/lists.lua
-- include lib/constraints/gate_ids.lua
-- include lib/constraints/slots.lua
-- include lib/constraints/limit_kinds.lua
-- include lib/constraints/gates.lua
-- include lib/constraints/charges.lua
-- include lib/constraints/kept_room.lua
-- include lib/constraints/weighing.lua
-- include lib/constraints/weights.lua
-- Lets claims pass their gates: uses up room, takes slots and remembers starts. A script that claims many jobs collects
-- these changes and writes them at the end.
local passing = lazily.made_by(function()
  local tag = ARGV.tag
  local add_pair, under = lists.add_pair, lists.under
  -- `passed`: by lane or group, the claims that pass its gates.
  -- `held_own`: by gate that only records of jobs have, the slots to take.
  -- `begun_own`: by gate that only records of jobs have, the starts to remember.
  local passed, held_own, begun_own = {}, {}, {}
  -- By constraint in shadow mode: the number of jobs that it would have delayed.
  local shadowed = {}
  -- By gate with a weight: the charges of the claims of this call.
  local charged = {}

  -- Uses up room at these gates for `taken` more jobs. Skips gates with a weight, because `charge` uses up their room.
  local function use_room(ids, taken, now_ms)
    for _, gate_id in ipairs(ids) do
      local gate = gates.of(gate_id, now_ms)
      if gate.weight_default then
        -- A gate with a weight: `charge` uses up its room.
      elseif gate.is_shadow then
        local delayed = math.min(taken, taken - gate.shadow_room)
        gate.shadow_room = math.max(0, gate.shadow_room - taken)
        if delayed > 0 then shadowed[gate.cid] = (shadowed[gate.cid] or 0) + delayed end
      else
        gate.room, gate.taken = gate.room - taken, gate.taken + taken
      end
    end
  end

  -- Charges a claim at a gate. `kept`: the gate's present entry of this claim, or false.
  local function charge_at(gate, weight, id, token_bytes, begun_ms, kept)
    local list = charged[gate.id]
    if not list then
      -- Most gates have no window. Create no list of starts for them.
      list = {gate = gate, entries = {}, filled = 0, sum = 0, begun = gate.window_most and {} or nil, begun_sum = 0}
      charged[gate.id] = list
    end
    if kept then weight = charges.charge_of(kept) end
    local entry = kept or charges.entry_of(token_bytes, weight)
    -- Store the number of elements, because `#` would search for the end of the list.
    local entries, filled = list.entries, list.filled
    entries[filled + 1], entries[filled + 2] = id, entry
    list.filled, list.sum = filled + 2, list.sum + weight
    if gate.window_most and not (kept and charges.is_remembered(gate, kept)) then
      add_pair(list.begun, begun_ms, entry)
      list.begun_sum = list.begun_sum + weight
    end
    if not kept then
      local is_delayed = gate.is_shadow and not weighing.fits(gate, weight)
      if is_delayed then shadowed[gate.cid] = (shadowed[gate.cid] or 0) + 1 end
    end
    weighing.use(gate, weight)
    if gate.kept and gate.kept.id == id then
      kept_room.drop(gate.id)
      gate.kept = nil
    end
  end

  -- Charges a claim at those of the gates that have a weight. `found`: the weights in the job's record. `kept`: by
  -- gate, the gate's present entry of this claim, or nil.
  local function charge(ids, found, id, token_bytes, begun_ms, now_ms, kept)
    for _, gate in ipairs(weights.among(ids, now_ms) or {}) do
      charge_at(gate, (weights.at(gate, found)), id, token_bytes, begun_ms, kept and kept[gate.id])
    end
  end

  -- Lets a claim pass the gates of `owner`, which is a lane with keyed gates or a group with shared gates. `job`: the
  -- record of the job.
  local function add(ids, owner, id, token_bytes, now_ms, job)
    local list = passed[owner]
    if not list then
      list = {ids = ids, holders = {}, begun = {}, filled = 0, weighted = weights.among(ids, now_ms) or {}}
      passed[owner] = list
    end
    local holders, begun, filled = list.holders, list.begun, list.filled
    holders[filled + 1], holders[filled + 2] = id, token_bytes
    begun[filled + 1], begun[filled + 2] = now_ms, token_bytes
    list.filled = filled + 2
    local weighted = list.weighted
    for n = 1, #weighted do
      charge_at(weighted[n], (weights.at(weighted[n], weights.of_record(job))), id, token_bytes, now_ms, false)
    end
  end

  -- Lets a claim pass the gates that only its job has. `job`: the record of the job.
  local function add_own(ids, id, token_bytes, now_ms, job)
    for _, gate_id in ipairs(ids) do
      local gate = gates.of(gate_id, now_ms)
      if gate.tracks_slots then add_pair(under(held_own, gate_id), id, token_bytes) end
      if gate.tracks_starts or gate.observed_left then add_pair(under(begun_own, gate_id), now_ms, token_bytes) end
      if gate.weight_default then
        charge_at(gate, (weights.at(gate, weights.of_record(job))), id, token_bytes, now_ms, false)
      end
    end
  end

  -- Lets claims pass these gates. Either all of them are shared, or all are keyed. `holders` alternates job IDs and
  -- tokens. `begun` alternates start times and tokens of the same claims.
  local function pass(ids, holders, begun, now_ms)
    local is_held = false
    for _, id in ipairs(ids) do
      local gate = gates.of(id, now_ms)
      is_held = is_held or gate.tracks_slots
      if gate.tracks_slots and not gate_ids.is_shared(id) then lists.alone(slots.take, id, holders) end
      lists.alone(limit_kinds.on_start, gate, begun, now_ms)
    end
    if is_held and gate_ids.is_shared(ids[1]) then lists.alone(slots.take, table.concat(ids), holders) end
  end

  -- Writes the collected claims. The records of the jobs are already written, so a damaged gate must not prevent the
  -- other gates from being written.
  local function write(now_ms)
    for _, list in pairs(passed) do pass(list.ids, list.holders, list.begun, now_ms) end
    for gate_id, holders in pairs(held_own) do lists.alone(slots.take, gate_id, holders) end
    for _, list in pairs(charged) do
      lists.alone(charges.take, list.gate, list.entries, list.sum, list.begun, list.begun_sum)
    end
    if next(charged) then lists.alone(charges.write_sums) end
    for gate_id, begun in pairs(begun_own) do
      lists.alone(limit_kinds.on_start, gates.of(gate_id, now_ms), begun, now_ms)
    end
    for cid, delayed in pairs(shadowed) do lists.alone(redis.call, 'HINCRBY', tag .. 'shadowed', cid, delayed) end
  end

  return {pass = pass, use_room = use_room, charge = charge, add = add, add_own = add_own, write = write}
end)
