-- The current leader and its epoch.
local leadership = (function()
  -- A leader's act counts only under the newest leadership: equality, not order, so that no rolled-back epoch passes.
  local function holds(epoch_key, epoch)
    return redis.call('GET', epoch_key) == epoch
  end

  -- Writes down who leads from now on, and under which epoch. The epoch is at least as high as the clock, so that a
  -- store that fell back to an older state does not reuse one.
  local function begin(leader_key, epoch_key, now_ms, master_id, nonce, ttl_ms)
    local newest = tonumber(string.match(redis.call('GET', epoch_key) or '0', '^%d+'))
    local epoch = string.format('%.0f:%s', math.max(newest + 1, now_ms), nonce)
    redis.call('SET', epoch_key, epoch)
    redis.call('SET', leader_key, epoch .. ':' .. master_id, 'PX', ttl_ms)
    return epoch
  end

  return {holds = holds, begin = begin}
end)()
