-- include lib/record.lua
-- include lib/batches.lua
-- Jobs from whose end something follows: their records have the flag `followed`, and their extras say what. A job
-- without the flag costs one test of its flags.
local followed = (function()
  local FLAG = layout.FLAG.followed
  -- By extras: many jobs of one batch have the same.
  local batch_of_extras = {}

  local function is_followed(head)
    return head ~= '' and record.has_flag(record.flags_of(head), FLAG)
  end

  -- Returns the batch of a job with the flag; nil where its record does not tell.
  local function batch_of(key, head)
    local extras = record.extras_of(key, head)
    local batch_id = batch_of_extras[extras]
    if batch_id == nil then
      local ok, fields = pcall(cmsgpack.unpack, extras)
      batch_id = ok and type(fields) == 'table' and type(fields.batch) == 'string' and fields.batch
      batch_of_extras[extras] = batch_id
    end
    return batch_id or nil
  end

  -- The job with this record leaves its state, which `head` has, for another one.
  local function moved(key, head, to)
    if not is_followed(head) then return end
    local batch_id = batch_of(key, head)
    if batch_id then batches.move(batch_id, record.state_of(head), to) end
  end

  -- The job is deleted by people.
  local function deleted(id, key, head)
    if not is_followed(head) then return end
    local batch_id = batch_of(key, head)
    if batch_id then batches.lose(batch_id, id, record.state_of(head)) end
  end

  -- The waiting job takes the content of another push, and so its batch.
  local function replaced(id, key, head)
    if not is_followed(head) then return end
    local batch_id = batch_of(key, head)
    if batch_id then batches.leave(batch_id, id) end
  end

  return {is_followed = is_followed, batch_of = batch_of, moved = moved, deleted = deleted, replaced = replaced}
end)()
