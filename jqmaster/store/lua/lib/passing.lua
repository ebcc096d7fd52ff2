-- include lib/lists.lua
-- include lib/gate_ids.lua
-- include lib/slots.lua
-- include lib/gates.lua
-- Claims pass gates: they use up room, take slots, and their starts are remembered. One claim of many jobs gathers what
-- they pass, and writes it at the end.
local passing = (function()
  local tag = ARGV.tag
  local MAX_REMEMBERED, REMEMBERED_MS = 1000, 60000  -- starts of a gate beyond its period
  local add_pair, under = lists.add_pair, lists.under
  -- By owner, and by gate for those that jobs bring along.
  local passed, held_own, begun_own = {}, {}, {}
  -- By constraint: jobs that it would have delayed, were it in force.
  local shadowed = {}

  -- `taken` more jobs start behind these gates.
  local function use_room(ids, taken, now_ms)
    for _, gate_id in ipairs(ids) do
      local gate = gates.of(gate_id, now_ms)
      if gate.is_shadow then
        local delayed = math.min(taken, taken - gate.shadow_room)
        gate.shadow_room = math.max(0, gate.shadow_room - taken)
        if delayed > 0 then shadowed[gate.cid] = (shadowed[gate.cid] or 0) + delayed end
      else
        gate.room, gate.taken = gate.room - taken, gate.taken + taken
      end
    end
  end

  -- A claim passes the gates of its `owner`: a lane with keyed gates, or a group with shared ones.
  local function add(ids, owner, id, token_bytes, now_ms)
    local list = passed[owner]
    if not list then
      list = {ids = ids, holders = {}, begun = {}}
      passed[owner] = list
    end
    add_pair(list.holders, id, token_bytes)
    add_pair(list.begun, now_ms, token_bytes)
  end

  -- It passes gates that its job brings along.
  local function add_own(ids, id, token_bytes, now_ms)
    for _, gate_id in ipairs(ids) do
      local gate = gates.of(gate_id, now_ms)
      if gate.tracks_slots then add_pair(under(held_own, gate_id), id, token_bytes) end
      if gate.tracks_starts then add_pair(under(begun_own, gate_id), now_ms, token_bytes) end
    end
  end

  -- How long a gate remembers its starts: for one period at least. Beyond it for as many whole periods as hold at most
  -- `MAX_REMEMBERED` starts, up to `REMEMBERED_MS`, so that a period that is made longer finds what started before.
  local function remembered_ms(gate)
    if not gate.rate_limit then return REMEMBERED_MS end
    local whole_periods_ms = gate.period_ms * math.floor(MAX_REMEMBERED / gate.rate_limit)
    return math.max(gate.period_ms, math.min(REMEMBERED_MS, whole_periods_ms))
  end

  -- `begun` alternates instants and tokens.
  local function note_starts(gate, begun, now_ms)
    local key, kept_ms = tag .. 'starts:' .. gate.id, remembered_ms(gate)
    redis.call('ZREMRANGEBYSCORE', key, '-inf', '(' .. string.format('%.0f', now_ms - kept_ms))
    redis.call('ZADD', key, unpack(begun))
    -- One value without a rate, where others have one: nothing else bounds its starts.
    if not gate.rate_limit then redis.call('ZREMRANGEBYRANK', key, 0, -MAX_REMEMBERED - 1) end
    -- Older starts say nothing more, whoever's clock moved.
    redis.call('PEXPIRE', key, kept_ms + 1000)
  end

  -- Claims pass these gates, all shared or all keyed: `holders` alternates job IDs and tokens, `begun` instants and
  -- tokens, of the same claims.
  local function pass(ids, holders, begun, now_ms)
    local is_held = false
    for _, id in ipairs(ids) do
      local gate = gates.of(id, now_ms)
      is_held = is_held or gate.tracks_slots
      if gate.tracks_slots and not gate_ids.is_shared(id) then slots.take(id, holders) end
      if gate.tracks_starts then note_starts(gate, begun, now_ms) end
    end
    if is_held and gate_ids.is_shared(ids[1]) then slots.take(table.concat(ids), holders) end
  end

  -- Writes what was gathered.
  local function write(now_ms)
    for _, list in pairs(passed) do pass(list.ids, list.holders, list.begun, now_ms) end
    for gate_id, holders in pairs(held_own) do slots.take(gate_id, holders) end
    for gate_id, begun in pairs(begun_own) do note_starts(gates.of(gate_id, now_ms), begun, now_ms) end
    for cid, delayed in pairs(shadowed) do redis.call('HINCRBY', tag .. 'shadowed', cid, delayed) end
  end

  return {pass = pass, use_room = use_room, add = add, add_own = add_own, write = write}
end)()
