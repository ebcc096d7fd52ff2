-- include lib/lazily.lua
-- Reads the limits of this store's constraints.
local constraints = lazily.made_by(function()
  local tag = ARGV.tag
  -- FIELDS: the limits in the hash of a constraint. PARTS: the limits in the text of an override. An empty part stands
  -- for the value of the constraint.
  local FIELDS, PARTS, IS_FLAG = layout.LIMIT_FIELDS, layout.OVERRIDE_FIELDS, layout.is_flag_of_limits
  local known = {}

  -- Returns the limits of a constraint; false: the constraint is deleted. `id`: of the constraint, or of one of its
  -- gates.
  local function limits_of(id)
    local cid = string.sub(id, 1, layout.gates.constraint_length)
    local limits = known[cid]
    if limits == nil then
      local f = redis.call('HMGET', tag .. 'limits:' .. cid, 'mode', 'has_overrides', 'tracks_slots',
        'tracks_starts', 'has_conditions', unpack(FIELDS))
      limits = f[1] and {is_shadow = f[1] == 'shadow', has_overrides = f[2] == '1', tracks_slots = f[3] == '1',
        tracks_starts = f[4] == '1', has_conditions = f[5] == '1'} or false
      for n = 1, limits and #FIELDS or 0 do
        local field, value = FIELDS[n], f[n + 5]
        if IS_FLAG[field] then limits[field] = value == '1' else limits[field] = tonumber(value) end
      end
      known[cid] = limits
    end
    return limits
  end

  -- Returns these limits with the changes of an override. `text`: the text of the override.
  local function overridden(limits, text)
    local own, next_part = {}, string.gmatch(text .. ',', '([^,]*),')
    for n = 1, #PARTS do
      local field, part = PARTS[n], next_part() or ''
      if IS_FLAG[field] then
        own[field] = limits[field] or part == '1'
      else
        own[field] = tonumber(part) or limits[field]
      end
    end
    return own
  end

  -- Returns the limits at one gate, and the ID of the conditional override that applies there, if any. The override for
  -- the key value takes precedence over the conditional override. Each of them takes precedence over the constraint.
  local function limits_at(gate_id, limits)
    local found, condition = limits, nil
    if not (limits.has_overrides or limits.has_conditions) then return found end
    local cid = string.sub(gate_id, 1, layout.gates.constraint_length)
    if limits.has_conditions then
      condition = redis.call('HGET', tag .. 'conditions:' .. cid, gate_id) or nil
      local text = condition and redis.call('HGET', tag .. 'overrides:' .. cid, condition)
      if text then found = overridden(found, text) end
    end
    local override = limits.has_overrides and redis.call('HGET', tag .. 'overrides:' .. cid, gate_id)
    if override then found = overridden(found, override) end
    return found, condition
  end

  -- Returns whether the key values of this gate's constraint take turns.
  local function is_fair(gate_id)
    local limits = limits_of(gate_id)
    return limits and limits.is_fair and not limits.is_shadow
  end

  return {limits_of = limits_of, limits_at = limits_at, is_fair = is_fair}
end)
