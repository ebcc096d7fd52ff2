-- include lib/jobs/record.lua
-- Jobs of which people erased a value. `erased` in the extras of such a job has the paths of the values.
local erased = (function()
  -- Returns whether a value is gone that the job needs to run. `head`: the result of `record.read_head`.
  local function cannot_run(job_key, head)
    local extras = record.extras_of(job_key, head)
    -- Few jobs have extras, and hardly any has this one.
    if not string.find(extras, 'erased', 1, true) then return false end
    local ok, fields = pcall(cmsgpack.unpack, extras)
    local paths = ok and type(fields) == 'table' and fields.erased
    if type(paths) ~= 'table' then return false end
    for _, path in ipairs(paths) do
      if string.find(path, '^argument') or string.find(path, '^headers') then return true end
    end
    return false
  end

  return {cannot_run = cannot_run}
end)()
