-- A gate is one limit for one key value. Its ID begins with that of the constraint and ends with the key, or says that
-- there is none: then the whole group of lanes shares it. Several IDs stand in one string one behind the other, all
-- shared or all with keys.
local gate_ids = (function()
  local sub = string.sub

  local function split(text)
    local ids = {}
    for at = 1, #text, layout.gates.length do ids[#ids + 1] = sub(text, at, at + layout.gates.length - 1) end
    return ids
  end

  local function constraint_of(id)
    return sub(id, 1, layout.gates.constraint_length)
  end

  local function is_shared(ids)
    return sub(ids, layout.gates.constraint_length + 1, layout.gates.length) == layout.NO_KEY
  end

  return {split = split, constraint_of = constraint_of, is_shared = is_shared}
end)()
