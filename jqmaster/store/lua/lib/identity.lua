-- Every change of who may call is a new version, which caches ask for. As high as the clock at least: see put_constraint.lua.
local function raise_version(identity_key, now_ms, wake_channel)
  local version = string.format('%.0f', math.max(tonumber(redis.call('HGET', identity_key, 'version') or 0) + 1, now_ms))
  redis.call('HSET', identity_key, 'version', version)
  redis.call('PUBLISH', wake_channel, 'identity')
  return tonumber(version)
end

-- Ends all sessions of one user or token. There are few: opening one more than may be ends the oldest.
local function end_sessions(list_key, session_prefix)
  for _, digest in ipairs(redis.call('ZRANGE', list_key, 0, -1)) do redis.call('UNLINK', session_prefix .. digest) end
  redis.call('UNLINK', list_key)
end
