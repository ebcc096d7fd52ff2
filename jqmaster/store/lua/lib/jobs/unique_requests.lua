-- include lib/lazily.lua
-- Requests for uniqueness keys by the jobs of one push. As a rule each key is free for the one job that asks for it.
-- Where one is not, lib/jobs/unique_pushes.lua judges.
local unique_requests = lazily.made_by(function()
  local tag = ARGV.tag
  -- In parallel: the number of each job that has a key, that key, and its rule.
  local numbers, keys, rules = {}, {}, {}
  local filled = 0

  -- Reads them. From MessagePack: [[[scope, on_conflict, ttl_ms, max_ms], …], whether no two of them have one key, and
  -- for each job its number, its digest, and the number of its rule]. Jobs of one push have few rules. `job_keys`: of
  -- the records of all jobs. Returns whether the keys are free and no job is there already: one look tells both.
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

  -- Adds keys and values for MSET where all were free. `status` is 1 for the jobs that are accepted; their IDs are the
  -- arguments from `first` on, each `width` after the one before.
  local function add_writes(list, added, status, first, width)
    local before = added
    for n = 1, filled do
      local number = numbers[n]
      if status[number] == 1 then
        list[added + 1], list[added + 2] = keys[n], ARGV[first + (number - 1) * width] .. rules[n].ending
        added = added + 2
      end
    end
    if added > before then list[added + 1], list[added + 2] = tag .. 'unique_used', '1' end
  end

  return {numbers = numbers, keys = keys, rules = rules, read = read, add_writes = add_writes}
end)
