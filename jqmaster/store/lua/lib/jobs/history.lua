-- include lib/lazily.lua
-- The history of a job: for each ended attempt, the time of its end and an entry in the format of
-- jqmaster/store/codec.py.
local history = lazily.made_by(function()
  local MOST = 100
  -- Each entry begins with this byte: a MessagePack array of six parts.
  local SIX_PARTS = '\150'

  -- Adds an entry. Ignores errors, because a history key of another type must not stop a script in the middle.
  local function add(key, ended_at_ms, entry)
    redis.pcall('RPUSH', key, struct.pack('>i8', ended_at_ms) .. entry)
  end

  local function trim(key)
    redis.pcall('LTRIM', key, -MOST, -1)
  end

  -- Returns the history entry of an attempt that ended without a report from its worker.
  local function entry_of(attempt, worker_id, started_at_ms, ending)
    local message, error_value = '', nil
    return SIX_PARTS .. cmsgpack.pack(attempt, worker_id, started_at_ms, ending, message, error_value)
  end

  -- Returns the newest entries of a job's history, the newest first. Skips entries that cannot be read.
  local NEWEST = 5
  local function newest(id)
    local list, found = redis.pcall('LRANGE', ARGV.tag .. 'history:' .. id, -NEWEST, -1), {}
    for n = list.err and 0 or #list, 1, -1 do
      local ok, parts = pcall(cmsgpack.unpack, string.sub(list[n], 9))
      if ok and type(parts) == 'table' and #list[n] > 8 then
        found[#found + 1] = {attempt = parts[1], worker_id = parts[2], ending = parts[4],
          ended_at_ms = (struct.unpack('>i8', list[n]))}
      end
    end
    return found
  end

  return {MOST = MOST, add = add, trim = trim, entry_of = entry_of, newest = newest}
end)
