-- include lib/jobs/record.lua
-- include lib/constraints/gate_ids.lua
-- include lib/constraints/constraints.lua
-- include lib/lanes/lanes.lua
-- include lib/constraints/waiting.lua
-- Definitions of lanes: where jobs are to wait, as a master worked out from the rules.
local homes = (function()
  local tag = ARGV.tag
  local sub = string.sub

  -- From MessagePack: [[[base lane, name, group, shared gates], …], base (its number, from 1), keyed gates as a record
  -- has them, keyed gates where the record leaves them to its lane, texts of their key values …, the next base …]. One
  -- list for all: there may be hundreds of definitions, and to make a table costs more than to read one.
  local function read(packed)
    local parts = cmsgpack.unpack(packed)
    local definitions, bases, n, at, last = {}, parts[1], 0, 2, #parts
    for i, base in ipairs(bases) do
      bases[i] = {id = base[1], name = base[2], group = base[3], shared = gate_ids.split(base[4])}
    end
    while at < last do
      local bytes = parts[at + 1]
      local is_in_lane = string.byte(bytes) == layout.gates.in_lane
      local keyed = is_in_lane and gate_ids.split(parts[at + 2]) or record.gates_at(bytes, 1)
      n = n + 1
      -- All fields at once: a table that grows is made anew several times.
      definitions[n] = {base = bases[parts[at]], bytes = bytes, is_in_lane = is_in_lane, keyed = keyed, texts = parts,
        before_texts = at + 2, home = nil, own = nil}
      at = at + 3 + #keyed
    end
    return definitions
  end

  -- Returns whether jobs of a name may be in lanes of their own kind: most names have one lane in an edition, the base.
  local has_lanes = {}
  local function may_have_lanes(name, edition)
    if has_lanes[name] == nil then
      has_lanes[name] = redis.call('ZCOUNT', tag .. 'lanes:' .. name, edition, edition) > 1
    end
    return has_lanes[name]
  end

  -- Looks up in one command which of these definitions have a lane of their own already.
  local function find_lanes(definitions, edition)
    local found, keys = {}, {}
    definitions.are_looked_up = true
    for _, definition in ipairs(definitions) do
      if #definition.keyed > 0 and may_have_lanes(definition.base.name, edition) then
        definition.lane_id = lanes.id_of(definition.base.group, definition.keyed)
        found[#found + 1] = definition
        keys[#keys + 1] = tag .. 'lane:' .. definition.lane_id
      end
    end
    for from = 1, #keys, 1000 do
      for n, lane in ipairs(redis.call('MGET', unpack(keys, from, math.min(from + 999, #keys)))) do
        found[from + n - 1].has_lane = lane and true
      end
    end
  end

  -- Returns the lane and the own gates of definition `n`, as `lanes.home_of` does.
  local function of(definitions, n, edition)
    local definition = definitions[n]
    if definition.home then return definition.home, definition.own end
    local base, keyed = definition.base, definition.keyed
    local waits_in_lane = definition.is_in_lane
    for i, gate_id in ipairs(keyed) do
      local limits = constraints.limits_of(gate_id)
      waiting.list(gate_id, definition.texts[definition.before_texts + i])
      -- A fair constraint serves lanes in turn, so each key value needs a lane.
      waits_in_lane = waits_in_lane or (limits and limits.is_fair)
    end
    if #keyed > 0 then
      if not waits_in_lane and not definitions.are_looked_up then find_lanes(definitions, edition) end
      if waits_in_lane or definition.has_lane then
        local id = definition.lane_id or lanes.id_of(base.group, keyed)
        definition.home = lanes.made(id, base.name, edition, base.group, base.shared, keyed)
        return definition.home
      end
    end
    base.lane = base.lane or lanes.made(base.id, base.name, edition, base.group, base.shared, {})
    definition.home, definition.own = base.lane, #keyed > 0 and keyed or nil
    return definition.home, definition.own
  end

  -- Returns the record of a job that waits there now.
  local function rewritten(job, lane, gates_bytes)
    local at, behind = record.gates_span(job)
    return sub(job, 1, layout.lane_id.offset) .. lanes.bytes_of(lane) .. sub(job, layout.lane_id.last + 1, at - 1)
      .. gates_bytes .. sub(job, behind)
  end

  -- Writes into a record where its job waits now.
  local function write(key, head, lane, gates_bytes)
    local at, behind = record.gates_span(head)
    if sub(head, at, behind - 1) == gates_bytes then
      redis.call('SETRANGE', key, layout.lane_id.offset, lanes.bytes_of(lane))
    else
      redis.call('SET', key, rewritten(redis.call('GET', key), lane, gates_bytes))
    end
  end

  return {read = read, of = of, rewritten = rewritten, write = write}
end)()
