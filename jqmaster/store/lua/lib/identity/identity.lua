-- Code that all changes of users and tokens share.
local identity = (function()
  -- Raises the version of users and tokens, so that caches notice the change. The version is at least the present time
  -- in ms: see put_constraint.lua.
  local function raise_version(identity_key, now_ms, wake_channel)
    local version = tonumber(redis.call('HGET', identity_key, 'version') or 0) + 1
    local text = string.format('%.0f', math.max(version, now_ms))
    redis.call('HSET', identity_key, 'version', text)
    redis.call('PUBLISH', wake_channel, 'identity')
    return tonumber(text)
  end

  -- Ends all sessions of one user or token except `kept` (empty: no exception). Reads all of these sessions, because
  -- their number is limited.
  local function end_sessions(list_key, session_prefix, kept)
    for _, digest in ipairs(redis.call('ZRANGE', list_key, 0, -1)) do
      if digest ~= kept then
        redis.call('UNLINK', session_prefix .. digest)
        redis.call('ZREM', list_key, digest)
      end
    end
  end

  return {raise_version = raise_version, end_sessions = end_sessions}
end)()
