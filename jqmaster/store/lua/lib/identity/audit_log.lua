-- The audit log, which records who has changed what.
local audit_log = (function()
  local function write(audit_key, now_ms, entry, max)
    redis.call('XADD', audit_key, 'MAXLEN', '~', max, '*', 'at_ms', string.format('%.0f', now_ms), 'entry', entry)
  end

  return {write = write}
end)()
