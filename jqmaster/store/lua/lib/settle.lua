-- Ends attempts in batches, so that a batch costs a few commands and not a few per job. Needs record.lua and lanes.lua.
local function new_batch(now_ms)
  return {now_ms = now_ms, ended = {}, indexes = {}, finished = {}, wakes = false, delays = false}
end

local function index_of(batch, key)
  local list = batch.indexes[key]
  if not list then
    list = {}
    batch.indexes[key] = list
  end
  return list
end

local function ended_of(batch, worker_id_bytes)
  local list = batch.ended[worker_id_bytes]
  if not list then
    list = {}
    batch.ended[worker_id_bytes] = list
  end
  return list
end

-- Ends the running attempt of `id` as decided. `head` is its record up to the name's end.
local function end_attempt(batch, id, head, target, index_key, due_at_ms, cause, is_counted, is_loss, entry)
  local flags = string.byte(head, 3)
  if has_flag(flags, FLAG_CONFIRMED) then flags = flags - FLAG_CONFIRMED end
  local attempt, failures, losses, returned = struct.unpack('>I4I4I2I2', head, 5)
  local is_final = target == STATE.succeeded or target == STATE.failed or target == STATE.canceled
  redis.call('SETRANGE', tag .. 'job:' .. id, 1, string.char(target, flags, cause)
    .. struct.pack('>I4I4I2I2i8', attempt, failures + is_counted, losses + is_loss, returned, due_at_ms)
    .. string.sub(head, 25, 32) .. struct.pack('>i8', is_final and batch.now_ms or 0))
  if entry ~= '' then
    -- best effort: a history of the wrong type must not leave the batch half done
    redis.pcall('RPUSH', tag .. 'history:' .. id, struct.pack('>i8', batch.now_ms) .. entry)
    if attempt > 100 or returned > 0 then redis.pcall('LTRIM', tag .. 'history:' .. id, -100, -1) end
  end
  local lane, own = home_of(head)
  lane_free(lane, own, id)
  if target == STATE.ready then
    lane_add(lane, struct.unpack('>i4', head, 89), id)
    batch.wakes = true
  else
    local list = index_of(batch, index_key)
    list[#list + 1] = is_final and batch.now_ms or due_at_ms
    list[#list + 1] = id
    batch.delays = batch.delays or not is_final
  end
  if is_final then lane_counts(lane, own, -1, 0) else lane_counts(lane, own, 0, 1) end
  local gone = ended_of(batch, string.sub(head, 73, 88))
  gone[#gone + 1] = id
  if is_final and has_flag(flags, FLAG_WATCHED) then batch.finished[#batch.finished + 1] = id end
end

-- Keeps the result of a job that ended `failed`, if it is to be kept.
local function keep_failure(id, head, target, result, results_key, ends_at_ms)
  if target == STATE.failed and string.byte(head, 3) % 2 == 1 then
    redis.call('SET', tag .. 'result:' .. id, result)
    redis.call('ZADD', results_key, ends_at_ms, id)
  end
end

-- Whether `head` belongs to the claim that `token_bytes` may settle.
local function holds(head, token_bytes)
  return #head >= HEAD_LENGTH and string.byte(head, 2) == STATE.running and string.sub(head, 57, 72) == token_bytes
end

-- Writes what the batch gathered and tells those who wait for it. Returns 1 where jobs may start that could not before.
local function write_batch(batch, running_key, wake_channel, finished_channel)
  for worker_id_bytes, ids in pairs(batch.ended) do
    each('ZREM', running_key, ids)
    each('SREM', tag .. 'claims:' .. uuid_text(worker_id_bytes), ids)
  end
  for key, list in pairs(batch.indexes) do add_all(key, list) end
  write_lanes(nil)
  if #batch.finished > 0 then redis.call('PUBLISH', finished_channel, table.concat(batch.finished, ',')) end
  local wakes = batch.wakes or has_opened
  if wake_channel ~= '' then
    for worker_id_bytes, ids in pairs(batch.ended) do
      redis.call('PUBLISH', wake_channel, 'freed:' .. uuid_text(worker_id_bytes) .. ':' .. #ids)
    end
    if wakes then redis.call('PUBLISH', wake_channel, 'ready') end
    if batch.delays then redis.call('PUBLISH', wake_channel, 'due') end
  end
  return wakes and 1 or 0
end
