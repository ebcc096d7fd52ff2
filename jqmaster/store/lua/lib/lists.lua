-- Functions on lists, and commands on all members of a list.
local lists = (function()
  -- Appends two elements. Uses `#` only once, because it searches for the end of the list.
  local function add_pair(list, first, second)
    local n = #list
    list[n + 1], list[n + 2] = first, second
  end

  -- Returns the list at a key of a table of lists. Creates the list if it is missing.
  local function under(of_key, key)
    local list = of_key[key]
    if not list then
      list = {}
      of_key[key] = list
    end
    return list
  end

  -- Calls ZADD once. `list` alternates scores and members. It has at most 1,000 elements, because a call of a script
  -- handles at most 500 jobs.
  local function zadd(key, list)
    return #list > 0 and redis.call('ZADD', key, unpack(list)) or 0
  end

  -- Calls a command, such as ZREM or SADD, once for all members of a list. Returns its result, which is a count.
  local function call(command, key, list)
    return #list > 0 and redis.call(command, key, unpack(list)) or 0
  end

  -- Runs `step`, a function, for one entry such as a gate or a lane, in a script that has begun to write. A damaged key
  -- ends only this function, because the other entries must agree with the records that are already written. The
  -- server's log names the fault, and fsck finds what was left undone. Returns the result of the function; nil: it
  -- failed.
  local function alone(step, ...)
    local is_done, result = pcall(step, ...)
    if is_done then return result end
    local fault = type(result) == 'table' and result.err or tostring(result)
    redis.log(redis.LOG_WARNING, 'a damaged entry is left out: ' .. fault)
    return nil
  end

  return {add_pair = add_pair, under = under, zadd = zadd, call = call, alone = alone}
end)()
