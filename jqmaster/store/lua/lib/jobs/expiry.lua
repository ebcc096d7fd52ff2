-- include lib/jobs/record.lua
-- The index of `expires_at`, which lists the unfinished jobs that have one. If this time passes while a job runs, the
-- job's entry moves to a time at most RECHECK_MS ahead, because the job may wait again. The entry of a finished job
-- stays until its `expires_at`.
local expiry = (function()
  local tag = ARGV.tag
  local RECHECK_MS, is_unfinished = 60000, layout.is_unfinished

  -- Returns the fault of a job's entry in the index as a text; empty: the entry agrees with the record.
  local function fault_of(id, head, now_ms)
    if not is_unfinished[record.state_of(head)] then return '' end
    local expires_at_ms = record.int64(head, layout.expires_at_ms.at)
    local score = tonumber(redis.call('ZSCORE', tag .. 'expiring', id) or nil)
    if expires_at_ms == 0 then return score and 'expires in the index, but never by its record' or '' end
    if not score then return 'expires by its record, but is not in the index' end
    local is_wrong = score < expires_at_ms or score > math.max(expires_at_ms, now_ms + RECHECK_MS)
    return is_wrong and string.format('expires at %.0f, in the index at %.0f', expires_at_ms, score) or ''
  end

  -- Repairs a job's entry in the index. Returns how many entries it changed.
  local function put_right(id, head, now_ms)
    if fault_of(id, head, now_ms) == '' then return 0 end
    local expires_at_ms = record.int64(head, layout.expires_at_ms.at)
    if expires_at_ms == 0 then return redis.call('ZREM', tag .. 'expiring', id) end
    redis.call('ZADD', tag .. 'expiring', expires_at_ms, id)
    return 1
  end

  return {RECHECK_MS = RECHECK_MS, fault_of = fault_of, put_right = put_right}
end)()
