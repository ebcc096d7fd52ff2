-- include lib/jobs/record.lua
-- include lib/jobs/followed.lua
-- include lib/jobs/history.lua
-- include lib/lists.lua
-- include lib/lanes/lanes.lua
-- include lib/lanes/lane_writes.lua
-- include lib/challenges/challenges.lua
-- Ends many attempts together, with a few commands for all jobs instead of a few commands for each job.
local attempts = (function()
  local tag = ARGV.tag
  local IS_FINAL = layout.is_final

  -- Returns a table that collects changes. `ended`: by worker ID, the jobs whose attempts ended. `indexes`: by key of
  -- an index, the members to add.
  local function new_batch(now_ms)
    return {now_ms = now_ms, ended = {}, indexes = {}, finished = {}, wakes = false, delays = false}
  end

  -- Returns whether the job with this head is running under the token.
  local function is_held(head, token_bytes)
    return #head >= layout.head.length and record.state_of(head) == layout.STATE.running
      and record.token_of(head) == token_bytes
  end

  -- Ends the running attempt of `id` with the decided outcome. `head`: the job's record up to the end of the name.
  -- `target`: its new state. The record gets `cause`, `is_counted` and `is_loss`. The history gets `entry` if it is not
  -- empty.
  --
  -- The attempt continues instead if the job would start a new attempt without having failed, and the callbacks of its
  -- challenge have arrived. The job then waits for a worker that runs the callbacks. Returns whether the attempt
  -- continues.
  local function finish(batch, id, head, target, index_key, due_at_ms, cause, is_counted, is_loss, entry)
    local flags = record.flags_of(head)
    local goes_on = false
    if record.has_flag(flags, layout.FLAG.has_challenge) then
      local challenge, list = challenges.open_one(id, head)
      goes_on = challenge and challenges.is_answered(challenge)
        and (target == layout.STATE.ready or target == layout.STATE.scheduled)
      if goes_on then
        target = layout.STATE.awaiting_callback
        challenge.since = challenge.since or batch.now_ms
        challenges.write(id, list)
        challenges.offer(id, head, challenge, math.max(due_at_ms, batch.now_ms))
        due_at_ms = 0
      else
        challenges.close(id, head, target, batch.now_ms)
        flags = flags - layout.FLAG.has_challenge
      end
    end
    if record.has_flag(flags, layout.FLAG.confirmed) then flags = flags - layout.FLAG.confirmed end
    local attempt, failures, losses, returned = record.attempts_of(head)
    local is_final = IS_FINAL[target]
    if is_final then followed.moved(tag .. 'job:' .. id, head, target, batch.now_ms) end
    redis.call('SETRANGE', tag .. 'job:' .. id, layout.state.offset, string.char(target, flags, cause)
      .. struct.pack('>I4I4I2I2i8', attempt, failures + is_counted, losses + is_loss, returned, due_at_ms)
      .. string.sub(head, layout.started_at_ms.at, layout.started_at_ms.last)
      .. struct.pack('>i8', is_final and batch.now_ms or 0))
    if entry ~= '' then
      history.add(tag .. 'history:' .. id, batch.now_ms, entry)
      if attempt > history.MOST or returned > 0 then history.trim(tag .. 'history:' .. id) end
    end
    table.insert(lists.under(batch.ended, record.worker_of(head)), id)
    if goes_on then
      batch.wakes = true
      return true
    end
    local lane, own = lanes.home_of(head)
    lanes.free(lane, own, id)
    if target == layout.STATE.ready then
      lanes.add(lane, record.priority_of(head), id)
      batch.wakes = true
    else
      lists.add_pair(lists.under(batch.indexes, index_key), is_final and batch.now_ms or due_at_ms, id)
      batch.delays = batch.delays or not is_final
    end
    if is_final then lanes.count(lane, own, -1, 0) else lanes.count(lane, own, 0, 1) end
    if is_final and record.has_flag(flags, layout.FLAG.watched) then batch.finished[#batch.finished + 1] = id end
    return false
  end

  -- Stores the result of a failed job that keeps its result.
  local function keep_failure(id, head, target, result, results_key, ends_at_ms)
    if target == layout.STATE.failed and record.has_flag(record.flags_of(head), layout.FLAG.keep_result) then
      redis.call('SET', tag .. 'result:' .. id, result)
      redis.call('ZADD', results_key, ends_at_ms, id)
    end
  end

  -- Writes the noted changes and notifies clients that wait for these jobs. Returns 1 if more jobs can
  -- start now than before this call.
  local function write(batch, running_key, wake_channel, finished_channel)
    for worker_id_bytes, ids in pairs(batch.ended) do
      lists.call('ZREM', running_key, ids)
      lists.call('SREM', tag .. 'claims:' .. record.uuid_text(worker_id_bytes), ids)
    end
    for key, list in pairs(batch.indexes) do lists.zadd(key, list) end
    followed.write(batch.now_ms)
    local has_opened = lane_writes.write(nil)
    if #batch.finished > 0 then redis.call('PUBLISH', finished_channel, table.concat(batch.finished, ',')) end
    local wakes = batch.wakes or has_opened
    if wake_channel ~= '' then
      for worker_id_bytes, ids in pairs(batch.ended) do
        redis.call('PUBLISH', wake_channel, 'freed:' .. record.uuid_text(worker_id_bytes) .. ':' .. #ids)
      end
      if wakes then redis.call('PUBLISH', wake_channel, 'ready') end
      if batch.delays then redis.call('PUBLISH', wake_channel, 'due') end
    end
    return wakes and 1 or 0
  end

  return {new_batch = new_batch, is_held = is_held, finish = finish, keep_failure = keep_failure, write = write}
end)()
