-- include lib/record.lua
-- include lib/uniqueness.lua
-- The uniqueness of the jobs of one push, which may conflict with jobs in the store and with one another.
local unique_pushes = (function()
  local tag = ARGV.tag
  -- By digest: the job that holds the key, as the store or an earlier job of this push has it. `from` is the number of
  -- the job in this push whose content it takes (nil: none).
  local holders = {}
  -- Holders that were in the store before and take new content, in their order.
  local replaced = {}

  -- By its number, what each job that has a key asks for. From MessagePack: [[number, digest, scope, on_conflict,
  -- ttl_ms, max_ms], …]
  local function read(packed, now_ms)
    local requests, list, keys = {}, cmsgpack.unpack(packed), {}
    for n, item in ipairs(list) do
      requests[item[1]] = {digest = item[2], scope = item[3], on_conflict = item[4], ttl_ms = item[5], max_ms = item[6]}
      keys[n] = uniqueness.key_of(item[2])
    end
    for n, value in ipairs(redis.call('MGET', unpack(keys))) do
      if value then holders[list[n][2]] = uniqueness.holder_in(value, now_ms) end
    end
    return requests
  end

  -- Returns 1 if the key is free, 2 if the job is not needed, 3 if it replaces the holder, -3 if it is refused; and the
  -- holder.
  local function judge(request)
    local holder = holders[request.digest]
    if not holder then return 1, nil end
    if request.on_conflict == layout.ON_CONFLICT.reject then return -3, holder end
    if request.on_conflict == layout.ON_CONFLICT.replace and holder.has_not_started then return 3, holder end
    return 2, holder
  end

  -- Job number `n` takes the key, or its content becomes that of the holder.
  local function take(request, holder, id, n)
    if not holder then
      holders[request.digest] = {id = id, head = '', has_not_started = true, from = n}
      return
    end
    if holder.head ~= '' and not holder.from then replaced[#replaced + 1] = holder end
    holder.from = n
  end

  -- The number of the job whose content the new job with this request gets.
  local function content_of(request)
    return holders[request.digest].from
  end

  -- Adds keys and values for MSET.
  local function add_writes(requests, list, filled, now_ms)
    local is_used = false
    for digest, holder in pairs(holders) do
      if holder.from then
        local request = requests[holder.from]
        local created_at_ms = holder.head == '' and now_ms or record.int64(holder.head, layout.created_at_ms.at)
        local until_ms = request.scope == layout.SCOPE.window and created_at_ms + request.ttl_ms or 0
        list[filled + 1] = uniqueness.key_of(digest)
        list[filled + 2] = uniqueness.value_of(holder.id, request.scope, until_ms)
        filled, is_used = filled + 2, true
      else
        uniqueness.write_again(digest, holder)
      end
    end
    if is_used then list[filled + 1], list[filled + 2] = tag .. 'unique_used', '1' end
  end

  return {
    read = read, judge = judge, take = take, content_of = content_of, replaced = replaced, add_writes = add_writes,
  }
end)()
