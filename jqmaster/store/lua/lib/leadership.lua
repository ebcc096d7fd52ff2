-- Checks and begins leaderships.
local leadership = (function()
  -- Returns whether the caller's leadership is the newest. Compares epochs for equality, so that no caller
  -- passes after the store was restored to an older epoch.
  local function holds(epoch_key, epoch)
    return redis.call('GET', epoch_key) == epoch
  end

  -- Begins a leadership: sets the lock and a new epoch, and returns the epoch. The epoch is at least the present time
  -- in ms, so that a store that was restored to an older state uses no epoch twice.
  local function begin(leader_key, epoch_key, now_ms, master_id, nonce, ttl_ms)
    local newest = tonumber(string.match(redis.call('GET', epoch_key) or '0', '^%d+'))
    local epoch = string.format('%.0f:%s', math.max(newest + 1, now_ms), nonce)
    redis.call('SET', epoch_key, epoch)
    redis.call('SET', leader_key, epoch .. ':' .. master_id, 'PX', ttl_ms)
    return epoch
  end

  return {holds = holds, begin = begin}
end)()
