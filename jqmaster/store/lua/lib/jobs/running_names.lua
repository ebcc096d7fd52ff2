-- Counts running jobs by worker and name.
local running_names = (function()
  local job_prefix = ARGV.tag .. 'job:'
  -- The part of a record to read: from the worker to the end of the longest possible name.
  local FIRST, LAST = layout.worker_id.offset, layout.name.length_at - 1 + 255
  local WORKER, LENGTH_AT = layout.worker_id.last - layout.worker_id.offset, layout.name.length_at - FIRST

  -- Counts the jobs in a range of the index of running jobs. Returns a list that alternates keys and counts. A key is
  -- the worker ID in 16 bytes, then the name. Also returns how many jobs follow this range.
  local function of(running_key, from_rank, most)
    local counts, found = {}, {}
    local ids = redis.call('ZRANGE', running_key, from_rank, from_rank + most - 1)
    for _, id in ipairs(ids) do
      -- Skip a damaged record.
      local part = redis.pcall('GETRANGE', job_prefix .. id, FIRST, LAST)
      local length = type(part) == 'string' and string.byte(part, LENGTH_AT)
      if length and #part >= LENGTH_AT + length then
        local place = string.sub(part, 1, WORKER) .. string.sub(part, LENGTH_AT + 1, LENGTH_AT + length)
        counts[place] = (counts[place] or 0) + 1
      end
    end
    for place, count in pairs(counts) do
      found[#found + 1] = place
      found[#found + 1] = count
    end
    return found, math.max(0, redis.call('ZCARD', running_key) - from_rank - #ids)
  end

  return {of = of}
end)()
