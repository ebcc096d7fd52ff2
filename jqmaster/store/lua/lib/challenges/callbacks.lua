-- include lib/lazily.lua
-- include lib/jobs/record.lua
-- include lib/lists.lua
-- include lib/challenges/challenges.lua
-- include lib/jobs/taking.lua
-- Claims jobs whose callbacks have arrived. `callbacks:{name}` orders these jobs by the time from which a worker may
-- run them. Deliveries to targets have lists of their own, because a worker that delivers to a target takes no other
-- callbacks.
local callbacks = lazily.made_by(function()
  local job_prefix = ARGV.tag .. 'job:'

  -- Returns the bytes of the claimed record from `state` to `returned_offers`; nil: the job does not wait for a worker.
  local function as_claimed(job)
    if type(job) ~= 'string' or #job < layout.name.at then return nil end
    if string.byte(job, layout.version.at) ~= layout.VERSION then return nil end
    local flags = record.flags_of(job)
    if record.state_of(job) ~= layout.STATE.awaiting_callback
      or not record.has_flag(flags, layout.FLAG.has_challenge) then return nil end
    return string.char(layout.STATE.running, flags, layout.CAUSE.none)
      .. string.sub(job, layout.attempt.at, layout.returned_offers.last)
  end

  local function take_of(name, most, max_bytes, now_ms)
    local key, bytes, taken = ARGV.tag .. 'callbacks:' .. name, 0, {}
    local due = redis.call('ZRANGEBYSCORE', key, '-inf', now_ms, 'LIMIT', 0, most)
    for _, id in ipairs(due) do
      if bytes > max_bytes then return true end
      local job = redis.pcall('GET', job_prefix .. id)
      local beginning = as_claimed(job)
      if beginning then
        bytes = taking.take_callback(id, job, beginning, now_ms)
        taken[#taken + 1] = id
      end
      -- The job no longer waits for a worker. Only remove it from the list.
      challenges.remove(id, name)
    end
    lists.call('ZREM', ARGV.tag .. 'awaiting_callback', taken)
    return #due == most
  end

  -- Claims jobs of the names in ARGV from index `first` on. `waiting_names`: names that have jobs whose callbacks have
  -- arrived, one a line. `is_target`: whether the worker delivers to a target. Returns whether there may be more jobs.
  local function take(waiting_names, first, limit, is_target, now_ms)
    if not waiting_names then return false end
    local is_waiting, max_bytes, has_more = {}, tonumber(ARGV.max_bytes), false
    for name in string.gmatch(waiting_names, '[^\n]+') do is_waiting[name] = true end
    local function take_if_any(name)
      if not is_waiting[name] then return true end
      local count = taking.progress()
      if count >= limit then return false end
      has_more = take_of(name, limit - count, max_bytes, now_ms) or has_more
      return true
    end
    for i = first, #ARGV do
      if not ((is_target or take_if_any(ARGV[i])) and take_if_any(ARGV[i] .. challenges.OF_TARGETS)) then
        return true
      end
    end
    return has_more
  end

  return {take = take}
end)
