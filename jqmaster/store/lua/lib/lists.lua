-- Functions on lists, and commands on all members of a list.
local lists = (function()
  -- Appends two elements. Uses `#` once, because it searches, and lists may have hundreds of elements.
  local function add_pair(list, first, second)
    local n = #list
    list[n + 1], list[n + 2] = first, second
  end

  -- Returns the list at a key of a table of lists, and creates it if it is missing.
  local function under(of_key, key)
    local list = of_key[key]
    if not list then
      list = {}
      of_key[key] = list
    end
    return list
  end

  -- Calls ZADD once. `list` alternates scores and members, and has at most 1,000 elements (500 jobs a call).
  local function zadd(key, list)
    return #list > 0 and redis.call('ZADD', key, unpack(list)) or 0
  end

  -- Calls one command, such as ZREM or SADD, for all members of a list. Returns its result, a count.
  local function call(command, key, list)
    return #list > 0 and redis.call(command, key, unpack(list)) or 0
  end

  -- Runs a step for one entry, such as a gate or a lane, in a script that has begun to write. A damaged key ends the
  -- step but not the script, because the other entries must agree with the records that were already written. The
  -- server's log names the fault, and fsck finds what the step has left undone. Returns the step's result; nil if it
  -- was ended.
  local function alone(step, ...)
    local is_done, result = pcall(step, ...)
    if is_done then return result end
    local fault = type(result) == 'table' and result.err or tostring(result)
    redis.log(redis.LOG_WARNING, 'a damaged entry is left out: ' .. fault)
    return nil
  end

  return {add_pair = add_pair, under = under, zadd = zadd, call = call, alone = alone}
end)()
