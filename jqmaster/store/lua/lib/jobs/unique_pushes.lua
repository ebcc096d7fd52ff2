-- include lib/lazily.lua
-- include lib/jobs/record.lua
-- include lib/lanes/lanes.lua
-- include lib/jobs/uniqueness.lua
-- include lib/jobs/unique_requests.lua
-- Resolves conflicts between the uniqueness keys of one push and stored jobs, and conflicts within the push.
local unique_pushes = lazily.made_by(function()
  local tag = ARGV.tag
  -- By number of each job with a uniqueness key: the key, the rule of the key, and the ID of the job.
  local keys_of, rules_of, ids_of = {}, {}, {}
  -- `holders`: by key, the stored job that holds it. `takers`: by key, the number of the job of this push that takes
  -- it.
  local holders, takers = {}, {}
  -- The stored jobs whose content this push replaces, in order. `from`: the number of the job with the new content.
  local replaced = {}

  -- Looks up the holders of the keys. The IDs of the jobs are every `width`-th argument from `first` on. Returns the
  -- uniqueness rules by number of the job.
  local function find_holders(now_ms, first, width)
    local numbers, keys = unique_requests.numbers, unique_requests.keys
    local values = redis.call('MGET', unpack(keys))
    for n, number in ipairs(numbers) do
      keys_of[number], rules_of[number] = keys[n], unique_requests.rules[n]
      ids_of[number] = ARGV[first + (number - 1) * width]
      if values[n] then holders[keys[n]] = uniqueness.holder_in(values[n], now_ms) end
    end
    return rules_of
  end

  -- Returns the holder of the key of job number `n`; nil: the key is free. Also returns the outcome for the job, as in
  -- jobs/enqueue/enqueue.lua: `existing`, `replaced`, `refused` or `offered`.
  local function judge(n)
    local key = keys_of[n]
    local holder, taker = holders[key], takers[key]
    if not holder then
      if not taker then return nil end
      holder = {id = ids_of[taker], head = '', has_not_started = true, from = taker}
      holders[key] = holder
    end
    local on_conflict = rules_of[n].on_conflict
    if on_conflict == layout.ON_CONFLICT.reject then return holder, 'refused' end
    if on_conflict == layout.ON_CONFLICT.replace then
      if holder.has_not_started then return holder, 'replaced' end
      if holder.is_offered then return holder, 'offered' end
    end
    return holder, 'existing'
  end

  -- Records that job number `n` takes the key, if `holder` is nil. Otherwise records that the holder gets the content
  -- of this job.
  local function take(holder, n)
    if not holder then
      takers[keys_of[n]] = n
      return
    end
    if holder.head ~= '' and not holder.from then replaced[#replaced + 1] = holder end
    holder.from = n
  end

  -- Returns the number of the job of this push whose content the new job number `n` gets.
  local function content_of(n)
    local holder = holders[keys_of[n]]
    return holder and holder.from or n
  end

  -- Appends keys and values for MSET to `list`.
  local function add_writes(list, added)
    local before = added
    for key, n in pairs(takers) do
      list[added + 1], list[added + 2] = key, ids_of[n] .. rules_of[content_of(n)].ending
      added = added + 2
    end
    for key, holder in pairs(holders) do
      if holder.head == '' then -- The holder is one of the takers.
      elseif holder.from then
        local rule = rules_of[holder.from]
        local until_ms = rule.scope == layout.SCOPE.window
          and record.int64(holder.head, layout.created_at_ms.at) + rule.ttl_ms or 0
        list[added + 1], list[added + 2] = key, uniqueness.value_of(holder.id, rule.scope, until_ms)
        added = added + 2
      else
        uniqueness.write_again(key, holder)
      end
    end
    if added > before then list[added + 1], list[added + 2] = tag .. 'unique_used', '1' end
  end

  -- Returns the gates at which a stored job is already counted, so that its new content needs no more room there.
  local function counted_at(head)
    local found, lane, own = {}, lanes.home_of(head)
    for _, list in ipairs({lane.shared, lane.keyed, own or {}}) do
      for _, gate_id in ipairs(list) do found[gate_id] = true end
    end
    return found
  end

  return {
    find_holders = find_holders, judge = judge, take = take, content_of = content_of, replaced = replaced,
    add_writes = add_writes, counted_at = counted_at,
  }
end)
