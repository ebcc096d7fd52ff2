-- include lib/jobs/record.lua
-- include lib/constraints/gate_ids.lua
-- include lib/constraints/constraints.lua
-- include lib/lanes/lanes.lua
-- include lib/constraints/waiting.lua
-- include lib/constraints/gate_conditions.lua
-- Definitions of lanes, which say in which lanes jobs have to wait. A master computes them from the constraints.
local homes = (function()
  local tag = ARGV.tag
  local byte, sub = string.byte, string.sub
  local NONE = {}

  -- Reads definitions from MessagePack. They are one flat list, because hundreds of small tables would take longer to
  -- create than to read. The first element lists the base lanes, each as [ID, name, group, shared gates]. After it,
  -- each definition has these elements:
  --   1. the number of its base lane, from 1
  --   2. its keyed gates, as a job's record stores them
  --   3. the IDs of these gates, if the lane stores them and not the job's record; otherwise an empty text
  --   4. for each keyed gate: the text of its key value; or, if the constraint has conditional overrides,
  --      [text, ID of the override that the job meets]
  local function read(packed)
    local parts = cmsgpack.unpack(packed)
    local definitions, bases, n, at, last = {}, parts[1], 0, 2, #parts
    for i, base in ipairs(bases) do
      bases[i] = {id = base[1], name = base[2], group = base[3], shared = gate_ids.split(base[4])}
    end
    while at < last do
      local bytes = parts[at + 1]
      local count, keyed = byte(bytes)
      -- Fast path: most lanes have at most one keyed gate.
      if count == 1 then
        keyed = {sub(bytes, 2)}
      elseif count == layout.gates.in_lane then
        keyed = gate_ids.split(parts[at + 2])
      else
        keyed = record.gates_at(bytes, 1)
      end
      n = n + 1
      -- Set all fields at once, because a table that grows is reallocated. Keep four fields, because a table with eight
      -- takes twice as long. `home_of` and `own_of` therefore hold what is found later.
      definitions[n] = {base = bases[parts[at]], bytes = bytes, keyed = keyed, before_texts = at + 2}
      at = at + 3 + #keyed
    end
    definitions.texts, definitions.home_of, definitions.own_of = parts, {}, {}
    return definitions
  end

  -- Returns whether jobs of a name may be in lanes with keyed gates. Most names have only one lane in each edition, the
  -- base lane.
  local has_lanes = {}
  local function may_have_lanes(name, edition)
    if has_lanes[name] == nil then
      has_lanes[name] = redis.call('ZCOUNT', tag .. 'lanes:' .. name, edition, edition) > 1
    end
    return has_lanes[name]
  end

  -- Looks up which definitions already have a lane with their keyed gates, in one command. Returns the IDs of these
  -- lanes by number of the definition; false or nil: there is no lane.
  local function find_lanes(definitions, edition)
    local found, keys, ids = {}, {}, {}
    for n, definition in ipairs(definitions) do
      if #definition.keyed > 0 and may_have_lanes(definition.base.name, edition) then
        ids[n] = lanes.id_of(definition.base.group, definition.keyed)
        found[#found + 1] = n
        keys[#keys + 1] = tag .. 'lane:' .. ids[n]
      end
    end
    for from = 1, #keys, 1000 do
      for n, lane in ipairs(redis.call('MGET', unpack(keys, from, math.min(from + 999, #keys)))) do
        if not lane then ids[found[from + n - 1]] = false end
      end
    end
    return ids
  end

  -- Notes the conditional overrides of definition `n` again, for a further job of this definition. A gate keeps the
  -- overrides that were noted last, and jobs of other definitions may have been placed since the first job of this one.
  -- Call this only if `definitions.conditions` exists.
  local function note_again(definitions, n)
    for gate_id, condition in pairs(definitions.conditions[n] or NONE) do gate_conditions.note(gate_id, condition) end
  end

  -- Returns the lane of a job of definition `n`, and the keyed gates in the job's record, as `lanes.home_of` does.
  local function of(definitions, n, edition)
    local home_of = definitions.home_of
    if home_of[n] then
      if definitions.conditions then note_again(definitions, n) end
      return home_of[n], definitions.own_of[n]
    end
    local definition = definitions[n]
    local base, keyed = definition.base, definition.keyed
    local count = #keyed
    if count > 0 then
      local waits_in_lane = byte(definition.bytes) == layout.gates.in_lane
      for i = 1, count do
        local gate_id = keyed[i]
        local limits = constraints.limits_of(gate_id)
        local text = definitions.texts[definition.before_texts + i]
        if type(text) == 'table' then
          gate_conditions.note(gate_id, text[2])
          definitions.conditions = definitions.conditions or {}
          definitions.conditions[n] = definitions.conditions[n] or {}
          definitions.conditions[n][gate_id] = text[2]
          text = text[1]
        end
        waiting.list(gate_id, text)
        -- Each key value of a fair constraint has a lane of its own, because such a constraint serves lanes in turn.
        waits_in_lane = waits_in_lane or (limits and limits.is_fair)
      end
      local lane_id
      if waits_in_lane then
        lane_id = lanes.id_of(base.group, keyed)
      else
        definitions.lane_ids = definitions.lane_ids or find_lanes(definitions, edition)
        lane_id = definitions.lane_ids[n]
      end
      if lane_id then
        home_of[n] = lanes.made(lane_id, base.name, edition, base.group, base.shared, keyed)
        return home_of[n]
      end
      definitions.own_of[n] = keyed
    end
    base.lane = base.lane or lanes.made(base.id, base.name, edition, base.group, base.shared, {})
    home_of[n] = base.lane
    return base.lane, definitions.own_of[n]
  end

  -- Returns the record of a job after the job's move to this lane. `at` and `behind`: the offsets of
  -- `record.gates_span`. `extras`: the new extras of the record, with the job's weights; nil: the extras do not change.
  local function rewritten(job, lane, gates_bytes, at, behind, extras)
    local rest = sub(job, behind)
    if extras then
      rest = struct.pack('>I4', #extras) .. extras .. record.behind_extras(job)
    end
    return sub(job, 1, layout.lane_id.offset) .. lanes.bytes_of(lane) .. sub(job, layout.lane_id.last + 1, at - 1)
      .. gates_bytes .. rest
  end

  -- Writes the new lane of a job to its record. `extras`: see `rewritten`.
  local function write(key, head, lane, gates_bytes, extras)
    local at, behind = record.gates_span(head)
    if not extras and sub(head, at, behind - 1) == gates_bytes then
      redis.call('SETRANGE', key, layout.lane_id.offset, lanes.bytes_of(lane))
    else
      redis.call('SET', key, rewritten(redis.call('GET', key), lane, gates_bytes, at, behind, extras))
    end
  end

  return {read = read, of = of, note_again = note_again, rewritten = rewritten, write = write}
end)()
