-- Ends attempts in batches, so that a batch costs a few commands and not a few per job. Needs record.lua.
local function uuid_text(bytes)
  local hex = string.gsub(bytes, '.', function(c) return string.format('%02x', string.byte(c)) end)
  return table.concat({string.sub(hex, 1, 8), string.sub(hex, 9, 12), string.sub(hex, 13, 16), string.sub(hex, 17, 20), string.sub(hex, 21, 32)}, '-')
end

local function new_batch(now_ms, job_prefix, history_prefix, ready_prefix)
  return {now_ms = now_ms, job_prefix = job_prefix, history_prefix = history_prefix, ready_prefix = ready_prefix,
    ended = {}, indexes = {}, finished = {}, names = {}, wakes = false, delays = false}
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
  redis.call('SETRANGE', batch.job_prefix .. id, 1, string.char(target, flags, cause)
    .. struct.pack('>I4I4I2I2i8', attempt, failures + is_counted, losses + is_loss, returned, due_at_ms)
    .. string.sub(head, 25, 32) .. struct.pack('>i8', is_final and batch.now_ms or 0))
  if entry ~= '' then
    -- best effort: a history of the wrong type must not leave the batch half done
    redis.pcall('RPUSH', batch.history_prefix .. id, struct.pack('>i8', batch.now_ms) .. entry)
    if attempt > 100 or returned > 0 then redis.pcall('LTRIM', batch.history_prefix .. id, -100, -1) end
  end
  local list
  if target == STATE.ready then
    local name = name_of(head)
    batch.names[#batch.names + 1] = name
    batch.wakes = true
    list = index_of(batch, batch.ready_prefix .. name)
    list[#list + 1] = struct.unpack('>i4', head, 89)
  else
    list = index_of(batch, index_key)
    list[#list + 1] = is_final and batch.now_ms or due_at_ms
    batch.delays = batch.delays or not is_final
  end
  list[#list + 1] = id
  local gone = ended_of(batch, string.sub(head, 73, 88))
  gone[#gone + 1] = id
  if is_final and has_flag(flags, FLAG_WATCHED) then batch.finished[#batch.finished + 1] = id end
end

-- Whether `head` belongs to the claim that `token_bytes` may settle.
local function holds(head, token_bytes)
  return #head >= 128 and string.byte(head, 2) == STATE.running and string.sub(head, 57, 72) == token_bytes
end

-- Writes what the batch gathered and tells those who wait for it.
local function write_batch(batch, running_key, claims_prefix, names_key, wake_channel, finished_channel)
  for worker_id_bytes, ids in pairs(batch.ended) do
    each('ZREM', running_key, ids)
    each('SREM', claims_prefix .. uuid_text(worker_id_bytes), ids)
  end
  for key, list in pairs(batch.indexes) do add_all(key, list) end
  each('SADD', names_key, batch.names)
  if #batch.finished > 0 then redis.call('PUBLISH', finished_channel, table.concat(batch.finished, ',')) end
  if wake_channel ~= '' then
    for worker_id_bytes, ids in pairs(batch.ended) do
      redis.call('PUBLISH', wake_channel, 'freed:' .. uuid_text(worker_id_bytes) .. ':' .. #ids)
    end
    if batch.wakes then redis.call('PUBLISH', wake_channel, 'ready') end
    if batch.delays then redis.call('PUBLISH', wake_channel, 'due') end
  end
end
