-- Writes an entry of the registry of namespaces, and gives it a new version.
local registry = (function()
  -- Writes an entry, or removes it if the document is empty. The version is at least the present time in ms, so that a
  -- store that was restored to an older state uses no version twice. The version is a field of the settings, so that
  -- masters read it together with the version of the settings.
  local function write(namespaces_key, settings_key, name, tag, document, now_ms)
    local version = math.max(tonumber(redis.call('HGET', settings_key, 'namespaces') or '0') + 1, now_ms)
    if document == '' then
      redis.call('HDEL', namespaces_key, name)
    else
      redis.call('HSET', namespaces_key, name, string.format('%016.0f', version) .. ' ' .. tag .. ' ' .. document)
    end
    redis.call('HSET', settings_key, 'namespaces', string.format('%.0f', version))
    return version
  end

  -- Returns whether the entry still has this version. `version`: 16 digits; empty: there must be no entry.
  local function is_version(namespaces_key, name, version)
    return string.sub(redis.call('HGET', namespaces_key, name) or '', 1, 16) == version
  end

  return {write = write, is_version = is_version}
end)()
