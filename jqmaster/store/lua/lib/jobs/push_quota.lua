-- include lib/lazily.lua
-- Counts the jobs that are pushed in each second of the store's clock, and refuses jobs beyond the quota.
local push_quota = lazily.made_by(function()
  local key = ARGV.tag .. 'pushes'
  local second, has_begun, later, most_here, room
  local refused = 0

  -- Reads the quota, and how many jobs were pushed in this second. `packed`: MessagePack of two numbers: how many jobs
  -- may be pushed in a second, and how many jobs the later calls of this push have. This call counts the later jobs,
  -- too.
  local function read(packed, now_ms)
    local given = cmsgpack.unpack(packed)
    second, later = string.format('%.0f', math.floor(now_ms / 1000)), given[2]
    local last = redis.call('HMGET', key, 'second', 'count')
    has_begun = last[1] == second
    most_here = given[1] - later - (has_begun and tonumber(last[2]) or 0)
    room = most_here
  end

  -- Uses up the quota for one job. Returns the job's outcome if the quota is exhausted, otherwise nil.
  local function refusal()
    if room > 0 then
      room = room - 1
      return nil
    end
    refused = refused + 1
    return 'too_fast'
  end

  -- Returns whether the quota refused a job of this call.
  local function has_refused() return refused > 0 end

  -- Gives back the quota of a job that was refused for another reason.
  local function give_back() room = room + 1 end

  local function write()
    if room >= most_here then return end
    local more = most_here - room + later
    if has_begun then redis.call('HINCRBY', key, 'count', more)
    else redis.call('HSET', key, 'second', second, 'count', more) end
  end

  return {read = read, refusal = refusal, has_refused = has_refused, give_back = give_back, write = write}
end)
