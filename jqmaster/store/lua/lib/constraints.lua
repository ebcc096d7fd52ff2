-- What the constraints of this store demand.
local constraints = (function()
  local tag = ARGV.tag
  local known = {}

  -- Of a gate, or of a constraint by its own ID; false where the constraint is gone.
  local function limits_of(id)
    local cid = string.sub(id, 1, layout.gates.constraint_length)
    local limits = known[cid]
    if limits == nil then
      local f = redis.call('HMGET', tag .. 'limits:' .. cid, 'mode', 'concurrency', 'rate_limit', 'rate_period_ms',
        'is_paused', 'max_backlog', 'is_fair', 'has_overrides', 'tracks_slots', 'tracks_starts')
      limits = f[1] and {is_shadow = f[1] == 'shadow', concurrency = tonumber(f[2]), rate_limit = tonumber(f[3]),
        rate_period_ms = tonumber(f[4]), is_paused = f[5] == '1', max_backlog = tonumber(f[6]), is_fair = f[7] == '1',
        has_overrides = f[8] == '1', tracks_slots = f[9] == '1', tracks_starts = f[10] == '1'} or false
      known[cid] = limits
    end
    return limits
  end

  -- Whether the keys of this gate's constraint take turns.
  local function is_fair(gate_id)
    local limits = limits_of(gate_id)
    return limits and limits.is_fair and not limits.is_shadow
  end

  return {limits_of = limits_of, is_fair = is_fair}
end)()
