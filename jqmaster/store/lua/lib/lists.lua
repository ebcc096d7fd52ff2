-- Lists, and commands over their members.
local lists = (function()
  -- Takes `#` once, because it is a search and lists grow to hundreds.
  local function add_pair(list, first, second)
    local n = #list
    list[n + 1], list[n + 2] = first, second
  end

  -- Returns the list under a key of a table of lists, and creates it if it is missing.
  local function under(of_key, key)
    local list = of_key[key]
    if not list then
      list = {}
      of_key[key] = list
    end
    return list
  end

  -- ZADD in one command; `list` alternates scores and members and never exceeds 1,000 elements (500 jobs a call).
  local function zadd(key, list)
    return #list > 0 and redis.call('ZADD', key, unpack(list)) or 0
  end

  -- One command over many members, such as ZREM or SADD, and its count of them.
  local function call(command, key, list)
    return #list > 0 and redis.call(command, key, unpack(list)) or 0
  end

  return {add_pair = add_pair, under = under, zadd = zadd, call = call}
end)()
