-- include lib/jobs/record.lua
-- Reads the heads of many jobs.
local heads = (function()
  -- Small records are read whole, many of them in one command, which takes a third of the time of single reads. Larger
  -- records are read only up to their arguments. As long as the records are SMALL, the number of records read at once
  -- grows by FACTOR.
  local MANY, FACTOR, SMALL = 64, 4, 4096

  -- Returns two functions. `of(n)` returns the head of the job at `keys[n]`, as `record.read_head` does. Each call of
  -- `of` must have a greater `n` than the call before. `forget()` drops the heads that were read ahead. The caller
  -- calls `forget` after it may have changed a record.
  local function reader(keys)
    local at_once, held, count = 1, {}, #keys

    local function read(n)
      local is_small
      if at_once == 1 then
        held[n] = record.beginning(keys[n], layout.longest_beginning)
        is_small = #held[n] < layout.longest_beginning
      else
        is_small = true
        local records = redis.call('MGET', unpack(keys, n, math.min(n + at_once - 1, count)))
        for i = 1, #records do
          local whole = records[i] or ''
          held[n + i - 1] = whole
          is_small = is_small and #whole <= SMALL
        end
      end
      at_once = is_small and math.min(FACTOR * at_once, MANY) or 1
    end

    local function of(n)
      if not held[n] then read(n) end
      return record.checked_head(held[n])
    end

    local function forget()
      held = {}
    end

    return of, forget
  end

  return {reader = reader}
end)()
