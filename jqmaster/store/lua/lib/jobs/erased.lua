-- include lib/jobs/record.lua
-- Jobs with erased values. `erased` in the extras of such a job lists the paths of the values.
local erased = (function()
  -- Returns whether a job cannot run again because a value that it needs was erased. `head`: the result of
  -- `record.read_head`.
  local function cannot_run(job_key, head)
    local extras = record.extras_of(job_key, head)
    -- Search for the name first, because few jobs have extras, and hardly any extras contain `erased`.
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
