-- include lib/jobs/record.lua
-- include lib/jobs/uniqueness.lua
-- Finds uniqueness keys in a state that no script can have caused.
local unique_faults = (function()
  local tag = ARGV.tag

  -- Returns the fault of a uniqueness key as a text; empty: the key is sound, or does not exist.
  local function of(digest)
    local key = uniqueness.key_of(digest)
    local value = redis.pcall('GET', key)
    if value == false then return '' end
    local id = uniqueness.named_in(value)
    if not id then return 'cannot be read' end
    local job_key = tag .. 'job:' .. id
    if redis.call('EXISTS', job_key) == 0 then
      return redis.call('PTTL', key) < 0 and 'names a job that is gone' or ''
    end
    local head = record.read_head(job_key)
    -- Report nothing here. Other checks report an unreadable record.
    if head == '' then return '' end
    if not record.has_flag(record.flags_of(head), layout.FLAG.unique) then return 'names a job without a key' end
    local own = uniqueness.of_record(job_key, head)
    return own and own ~= digest and 'names a job with another key' or ''
  end

  return {of = of}
end)()
