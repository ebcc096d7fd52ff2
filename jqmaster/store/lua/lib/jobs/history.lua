-- include lib/lazily.lua
-- The history of a job: each attempt that ended, as the time of its end and an entry, which jqmaster/store/codec.py
-- writes and reads.
local history = lazily.made_by(function()
  local MOST = 100
  -- An entry is an array of six parts, as MessagePack begins one.
  local SIX_PARTS = '\150'

  -- Best effort: a history of the wrong type must not leave a batch half done.
  local function add(key, ended_at_ms, entry)
    redis.pcall('RPUSH', key, struct.pack('>i8', ended_at_ms) .. entry)
  end

  local function trim(key)
    redis.pcall('LTRIM', key, -MOST, -1)
  end

  -- The entry of an attempt whose end no worker reported.
  local function entry_of(attempt, worker_id, started_at_ms, ending)
    local message, error_value = '', nil
    return SIX_PARTS .. cmsgpack.pack(attempt, worker_id, started_at_ms, ending, message, error_value)
  end

  return {MOST = MOST, add = add, trim = trim, entry_of = entry_of}
end)
