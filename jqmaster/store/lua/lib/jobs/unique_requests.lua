-- include lib/lazily.lua
-- The uniqueness keys that jobs of one push request. Usually each key is free, and only one job requests it. In other
-- cases, lib/jobs/unique_pushes.lua decides.
local unique_requests = lazily.made_by(function()
  local tag = ARGV.tag
  -- Three parallel lists: the number of each job with a key, its key, and the rule of the key.
  local numbers, keys, rules = {}, {}, {}
  local filled = 0

  -- Reads the requests of a push. `job_keys`: the keys of the records of all jobs. `packed` is MessagePack of a flat
  -- list:
  --   a list of rules: [scope, on_conflict, ttl_ms, max_ms] each
  --   whether all keys differ
  --   for each job: its number, its digest, and the number of its rule
  -- Returns whether all uniqueness keys are free and no job exists already. One command checks both.
  local function read(packed, now_ms, job_keys)
    local list, asked, count = cmsgpack.unpack(packed), {unpack(job_keys)}, #job_keys
    local known = list[1]
    for n, rule in ipairs(known) do
      local until_ms = rule[1] == layout.SCOPE.window and now_ms + rule[3] or 0
      known[n] = {scope = rule[1], on_conflict = rule[2], ttl_ms = rule[3], max_ms = rule[4],
        ending = struct.pack('>Bi8', rule[1], until_ms)}
    end
    for at = 3, #list, 3 do
      local key = tag .. 'unique:' .. list[at + 1]
      filled = filled + 1
      numbers[filled], keys[filled], rules[filled], asked[count + filled] = list[at], key, known[list[at + 2]], key
    end
    return list[2] and redis.call('EXISTS', unpack(asked)) == 0
  end

  -- Appends keys and values for MSET to `list`. Called if all keys were free. `outcomes`: the outcomes of jobs that are
  -- not accepted. The IDs of the jobs are every `width`-th argument from `first` on.
  local function add_writes(list, added, outcomes, first, width)
    local before = added
    for n = 1, filled do
      local number = numbers[n]
      if not outcomes[number] then
        list[added + 1], list[added + 2] = keys[n], ARGV[first + (number - 1) * width] .. rules[n].ending
        added = added + 2
      end
    end
    if added > before then list[added + 1], list[added + 2] = tag .. 'unique_used', '1' end
  end

  return {numbers = numbers, keys = keys, rules = rules, read = read, add_writes = add_writes}
end)
