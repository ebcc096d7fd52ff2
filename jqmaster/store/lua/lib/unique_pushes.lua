-- include lib/record.lua
-- include lib/uniqueness.lua
-- The uniqueness of the jobs of one push, which may conflict with jobs in the store and with one another.
local unique_pushes = (function()
  local tag = ARGV.tag
  -- By the number of a job that has a key: that key, and what the job asks for.
  local keys_of, rules_of, ids_of = {}, {}, {}
  -- By key: its holder in the store, or the number of the job in this push that takes it.
  local holders, takers = {}, {}
  -- Holders that were in the store before and take new content, in their order. `from` is the number of the job whose
  -- content that is.
  local replaced = {}

  -- Reads what the jobs of a push ask for. From MessagePack: [[[scope, on_conflict, ttl_ms, max_ms], …], and for each
  -- job its number, its digest, and the number of its rule]. Jobs of one push have few rules. Their IDs are the
  -- arguments from `first` on, each `width` after the one before. Returns the rules by the numbers of the jobs.
  local function read(packed, now_ms, first, width)
    local list, keys, filled = cmsgpack.unpack(packed), {}, 0
    local rules = list[1]
    for n, rule in ipairs(rules) do
      local until_ms = rule[1] == layout.SCOPE.window and now_ms + rule[3] or 0
      rules[n] = {scope = rule[1], on_conflict = rule[2], ttl_ms = rule[3], max_ms = rule[4],
        ending = uniqueness.ending_of(rule[1], until_ms)}
    end
    for at = 2, #list, 3 do
      local number, key = list[at], uniqueness.key_of(list[at + 1])
      filled = filled + 1
      keys[filled], keys_of[number], rules_of[number] = key, key, rules[list[at + 2]]
      ids_of[number] = ARGV[first + (number - 1) * width]
    end
    local values = redis.call('MGET', unpack(keys))
    for n = 1, filled do
      if values[n] then holders[keys[n]] = uniqueness.holder_in(values[n], now_ms) end
    end
    return rules_of
  end

  -- Returns 1 if the key of job number `n` is free, 2 if the job is not needed, 3 if it replaces the holder, -3 if it
  -- is refused; and the holder.
  local function judge(n)
    local key = keys_of[n]
    local holder, taker = holders[key], takers[key]
    if not holder then
      if not taker then return 1, nil end
      holder = {id = ids_of[taker], head = '', has_not_started = true, from = taker}
      holders[key] = holder
    end
    local on_conflict = rules_of[n].on_conflict
    if on_conflict == layout.ON_CONFLICT.reject then return -3, holder end
    if on_conflict == layout.ON_CONFLICT.replace and holder.has_not_started then return 3, holder end
    return 2, holder
  end

  -- Job number `n` takes the key, or its content becomes that of the holder.
  local function take(holder, n)
    if not holder then
      takers[keys_of[n]] = n
      return
    end
    if holder.head ~= '' and not holder.from then replaced[#replaced + 1] = holder end
    holder.from = n
  end

  -- The number of the job whose content the new job number `n` gets.
  local function content_of(n)
    local holder = holders[keys_of[n]]
    return holder and holder.from or n
  end

  -- Adds keys and values for MSET.
  local function add_writes(list, filled)
    local is_used = false
    for key, n in pairs(takers) do
      list[filled + 1] = key
      list[filled + 2] = ids_of[n] .. rules_of[content_of(n)].ending
      filled, is_used = filled + 2, true
    end
    for key, holder in pairs(holders) do
      if holder.head == '' then -- it is one of the takers
      elseif holder.from then
        local rule = rules_of[holder.from]
        local until_ms = rule.scope == layout.SCOPE.window
          and record.int64(holder.head, layout.created_at_ms.at) + rule.ttl_ms or 0
        list[filled + 1] = key
        list[filled + 2] = uniqueness.value_of(holder.id, rule.scope, until_ms)
        filled, is_used = filled + 2, true
      else
        uniqueness.write_again(key, holder)
      end
    end
    if is_used then list[filled + 1], list[filled + 2] = tag .. 'unique_used', '1' end
  end

  return {
    read = read, judge = judge, take = take, content_of = content_of, replaced = replaced, add_writes = add_writes,
  }
end)()
