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

  -- Returns the newest attempts of a job that ended, the newest first. One that cannot be read is left out.
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
