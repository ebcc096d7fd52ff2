-- include lib/lazily.lua
-- include lib/batches/batches.lua
-- Checks the batches to which the jobs of one push belong.
local batch_pushes = lazily.made_by(function()
  local WORDS = {unknown = 'no_batch', over = 'batch_over'}
  local refused = {}

  -- Returns the batch ID of each job of the push (false: none). `packed`: MessagePack of two lists. The first has the
  -- batch IDs. The second has for each job the number of its batch in the first list, from 1 (0: none).
  local function read(packed)
    local ids, numbers = unpack(cmsgpack.unpack(packed))
    local of_job = {}
    for n, number in ipairs(numbers) do of_job[n] = ids[number] or false end
    return of_job
  end

  -- Returns the outcome for a job whose batch accepts no new members; nil if the batch accepts them.
  local function refusal(batch_id)
    if refused[batch_id] == nil then refused[batch_id] = WORDS[batches.refusal(batch_id)] or false end
    return refused[batch_id] or nil
  end

  return {read = read, refusal = refusal}
end)
