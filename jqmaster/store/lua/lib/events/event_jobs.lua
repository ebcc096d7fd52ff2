-- include lib/jobs/record.lua
-- include lib/jobs/new_jobs.lua
-- include lib/jobs/cancellation.lua
-- Starts jobs of definitions for events, if the `overlap` of the definition permits it.
local event_jobs = (function()
  local tag = ARGV.tag
  local is_unfinished, is_waiting = layout.is_unfinished, layout.is_waiting
  local canceled, freed_workers = {}, {}
  local clocks_read = {}

  -- Returns the clock of a definition: the stored `handled`, and `last_job`. Called if the overlap depends on the
  -- newest job.
  local function clock_of(clocks_key, name)
    local found = clocks_read[name]
    if not found then
      local handled, last_job = string.match(redis.call('HGET', clocks_key, name) or '', '^(%-?%d+) (%S*) %S*$')
      found = {handled = handled or '0', last_job = last_job or '', is_changed = false}
      clocks_read[name] = found
    end
    return found
  end

  -- Returns the head of a stored job that has not ended; nil: it has ended, or does not exist.
  local function unfinished(id)
    if id == '' or canceled[id] then return nil end
    local head = record.read_head(tag .. 'job:' .. id)
    return head ~= '' and is_unfinished[record.state_of(head)] and head or nil
  end

  -- By definition: its newest job, if this call creates that job. Such a job is not in the store yet.
  local made = {}

  local function gather(id, terms, digest, rest, now_ms, replaced)
    if made[id] or redis.call('EXISTS', tag .. 'job:' .. id) == 1 then return 'fired' end
    local kind = new_jobs.kind_of(terms, now_ms)
    local counted = replaced and is_waiting[record.state_of(replaced)] and new_jobs.counted_at(replaced) or {}
    if new_jobs.take_place(kind.number, counted) then return 'backlog_full' end
    new_jobs.add(id, kind, digest, rest)
    made[id] = true
    return 'fired'
  end

  -- Starts the job of a definition. Returns fired, overlap, superseded or backlog_full. `is_last`: whether this is the
  -- call's last event for the definition. With the overlap `replace`, only that event fires.
  local function start(clocks_key, name, overlap, id, terms, digest, rest, now_ms, is_last)
    if overlap == 'allow' then return gather(id, terms, digest, rest, now_ms, nil) end
    if overlap == 'replace' and not is_last then return 'superseded' end
    local definition = clock_of(clocks_key, name)
    local last_job = definition.last_job
    if overlap == 'forbid' and (made[last_job] or unfinished(last_job)) then return 'overlap' end
    local head = unfinished(last_job)
    local became = gather(id, terms, digest, rest, now_ms, head)
    if became ~= 'fired' then return became end
    -- Cancel the old job, because there was room for the new one.
    if head then
      local worker_id = cancellation.cancel(last_job, head, now_ms)
      canceled[last_job] = record.has_flag(record.flags_of(head), layout.FLAG.watched) and 'watched' or 'alone'
      if worker_id then freed_workers[#freed_workers + 1] = worker_id end
    end
    definition.last_job, definition.is_changed = id, true
    return became
  end

  -- Writes the collected jobs. The caller writes the lanes afterwards with lib/lanes/lane_writes.lua.
  local function write(clocks_key, scheduled_key, expiring_key)
    new_jobs.write(scheduled_key, expiring_key)
    for name, definition in pairs(clocks_read) do
      if definition.is_changed then
        redis.call('HSET', clocks_key, name, definition.handled .. ' ' .. definition.last_job .. ' ')
      end
    end
  end

  -- Notifies clients that wait for replaced jobs, and wakes the leader. Returns the workers that ran a replaced job.
  local function tell(wake_channel, finished_channel)
    for id, telling in pairs(canceled) do
      if telling == 'watched' then redis.call('PUBLISH', finished_channel, id) end
    end
    new_jobs.tell(wake_channel)
    if wake_channel ~= '' then
      for _, worker_id in ipairs(freed_workers) do
        redis.call('PUBLISH', wake_channel, 'freed:' .. worker_id .. ':1')
      end
    end
    return freed_workers
  end

  return {start = start, write = write, tell = tell}
end)()
