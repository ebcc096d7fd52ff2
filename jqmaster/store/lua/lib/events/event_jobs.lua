-- include lib/jobs/record.lua
-- include lib/jobs/new_jobs.lua
-- include lib/jobs/cancellation.lua
-- The jobs that definitions start for events, as far as their overlap lets them.
local event_jobs = (function()
  local tag = ARGV.tag
  local is_unfinished, is_waiting = layout.is_unfinished, layout.is_waiting
  local canceled, freed_workers = {}, {}
  local clocks_read = {}

  -- Returns the clock of a definition that asks for its newest job: `handled` as it is stored, and `last_job`.
  local function clock_of(clocks_key, name)
    local found = clocks_read[name]
    if not found then
      local handled, last_job = string.match(redis.call('HGET', clocks_key, name) or '', '^(%-?%d+) (%S*) %S*$')
      found = {handled = handled or '0', last_job = last_job or '', is_changed = false}
      clocks_read[name] = found
    end
    return found
  end

  -- The head of a job in the store while it is not over, nil else.
  local function unfinished(id)
    if id == '' or canceled[id] then return nil end
    local head = record.read_head(tag .. 'job:' .. id)
    return head ~= '' and is_unfinished[record.state_of(head)] and head or nil
  end

  -- The newest job of a definition may be one of this very call, which is not in the store yet.
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

  -- Starts the job of a definition. Returns fired, overlap, superseded or backlog_full. Among several events of one
  -- call, `is_last` says which one fires where each would replace the one before.
  local function start(clocks_key, name, overlap, id, terms, digest, rest, now_ms, is_last)
    if overlap == 'allow' then return gather(id, terms, digest, rest, now_ms, nil) end
    if overlap == 'replace' and not is_last then return 'superseded' end
    local definition = clock_of(clocks_key, name)
    local last_job = definition.last_job
    if overlap == 'forbid' and (made[last_job] or unfinished(last_job)) then return 'overlap' end
    local head = unfinished(last_job)
    local became = gather(id, terms, digest, rest, now_ms, head)
    if became ~= 'fired' then return became end
    -- A job for which there is no room replaces no other job.
    if head then
      local worker_id = cancellation.cancel(last_job, head, now_ms)
      canceled[last_job] = record.has_flag(record.flags_of(head), layout.FLAG.watched) and 'watched' or 'alone'
      if worker_id then freed_workers[#freed_workers + 1] = worker_id end
    end
    definition.last_job, definition.is_changed = id, true
    return became
  end

  -- Writes all but the lanes, which lib/lanes/lane_writes.lua writes afterwards.
  local function write(clocks_key, scheduled_key, expiring_key)
    new_jobs.write(scheduled_key, expiring_key)
    for name, definition in pairs(clocks_read) do
      if definition.is_changed then
        redis.call('HSET', clocks_key, name, definition.handled .. ' ' .. definition.last_job .. ' ')
      end
    end
  end

  -- Tells those who wait for replaced jobs of their ends, and the leader what there is to do. Returns the workers that
  -- ran one.
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
