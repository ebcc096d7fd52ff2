-- IDs of gates. A gate is one constraint at one value of its key. Its ID is the ID of the constraint, followed by a
-- digest of the key value, or by a mark if there is no key. All lanes of a group share the gates without a key. A list
-- of gates is one string of concatenated IDs. Either all gates of a list have a key, or none of them has one.
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

  -- Returns whether jobs may have charges at this gate. The IDs of all constraints with a weight begin with
  -- `layout.WEIGHTED`. An older release also gave such IDs to some constraints without a weight.
  local function may_have_charges(id)
    return sub(id, 1, #layout.WEIGHTED) == layout.WEIGHTED
  end

  return {
    split = split, constraint_of = constraint_of, is_shared = is_shared, may_have_charges = may_have_charges,
  }
end)()
