-- include lib/lazily.lua
-- include lib/lists.lua
-- include lib/constraints/gate_ids.lua
-- include lib/constraints/constraints.lua
-- Counts the jobs that wait at each gate. The store has this number for each gate, with the text of the gate's key
-- value.
local waiting = lazily.made_by(function()
  local tag = ARGV.tag
  local constraint_of = gate_ids.constraint_of
  -- `more_at`: by gate, how many more jobs wait there after this call. `text_of`: by gate, the text of its key value.
  local more_at, text_of = {}, {}

  local function split_note(note)
    local colon = note and string.find(note, ':', 1, true)
    if not colon then return 0, nil end
    return tonumber(string.sub(note, 1, colon - 1)), string.sub(note, colon + 1)
  end

  -- Returns the facts before this call: the number of waiting jobs, and the text of the key value; nil: unknown.
  local function at(gate_id)
    return split_note(redis.call('HGET', tag .. 'gates:' .. constraint_of(gate_id), gate_id))
  end

  local function add(ids, count)
    for n = 1, #ids do
      local gate_id = ids[n]
      more_at[gate_id] = (more_at[gate_id] or 0) + count
    end
  end

  -- Lists a gate with the text of its key value, even if no job waits there, because running jobs may have passed it.
  -- The entry remains until the last of these jobs has ended.
  local function list(gate_id, text)
    text_of[gate_id] = text
    more_at[gate_id] = more_at[gate_id] or 0
  end

  -- Returns the exponent of the largest power of two that is not above `count`. The list of the most crowded gates
  -- changes only when this exponent changes.
  local function crowd(count)
    if count < 2 then return 0 end
    local _, exponent = math.frexp(count)
    return exponent - 1
  end

  -- Writes the counts of all gates of a constraint together. One command for each gate would cost as much as the rest
  -- of the script.
  local numbers = {}  -- A cache, because formatting is slow, and most gates have one of a few numbers.
  local function write_notes(cid, ids, from, last)
    local key, noted, filled, gone, crowded, uncrowded = tag .. 'gates:' .. cid, {}, 0, {}, {}, {}
    for i, note in ipairs(redis.call('HMGET', key, unpack(ids, from, last))) do
      local gate_id = ids[from + i - 1]
      local before, text = 0, nil
      if note then before, text = split_note(note) end
      local now = before + more_at[gate_id]
      -- Remove the entries of deleted constraints here, because the leader may no longer know the constraint. The
      -- leader removes the entries of idle key values.
      if now == 0 and (gate_ids.is_shared(gate_id) or not constraints.limits_of(cid)) then
        if note then gone[#gone + 1] = gate_id end
      elseif not note or now ~= before then
        local number = numbers[now] or string.format('%.0f:', now)
        numbers[now] = number
        noted[filled + 1], noted[filled + 2] = gate_id, number .. (text or text_of[gate_id] or '')
        filled = filled + 2
      end
      -- Leave gates with one waiting job out of the list of the most crowded gates, because most gates have one.
      local its_crowd = now > 1 and crowd(now) or 0
      if its_crowd ~= (before > 1 and crowd(before) or 0) then
        if its_crowd > 0 then
          crowded[#crowded + 1] = its_crowd
          crowded[#crowded + 1] = gate_id
        else
          uncrowded[#uncrowded + 1] = gate_id
        end
      end
    end
    lists.call('HSET', key, noted)
    lists.call('HDEL', key, gone)
    lists.zadd(tag .. 'crowded:' .. cid, crowded)
    lists.call('ZREM', tag .. 'crowded:' .. cid, uncrowded)
  end

  local function write()
    local of_cid, sub, cid_length = {}, string.sub, layout.gates.constraint_length
    for gate_id, more in pairs(more_at) do
      if more ~= 0 or text_of[gate_id] then
        local cid = sub(gate_id, 1, cid_length)
        local ids = of_cid[cid]
        if ids then ids[#ids + 1] = gate_id else of_cid[cid] = {gate_id} end
      end
    end
    for cid, ids in pairs(of_cid) do
      for from = 1, #ids, 500 do lists.alone(write_notes, cid, ids, from, math.min(from + 499, #ids)) end
    end
  end

  return {at = at, add = add, list = list, write = write}
end)
