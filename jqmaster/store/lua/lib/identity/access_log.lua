-- The access log. It has its own limits of number and age, so that other logs do not push out its entries. Events of
-- callers without the scope `admin` may come as a flood, and push out other entries. So repeats of such an event are
-- folded into one entry.
local access_log = (function()
  local MAX_ENTRIES, KEPT_MS = 100000, 400 * 86400000
  local FOLD_MS, MAX_FOLDS = 3600000, 10
  -- The format of a fold: times of the first and the last event, number of repeats, then the newest entry.
  local FOLD_HEAD, ENTRY_AT = '>i8i8i8', 25

  local function write_repeated(access_key, now_ms, entry, times, since_ms)
    local oldest_ms = string.format('%.0f', math.max(0, now_ms - KEPT_MS))
    redis.call('XTRIM', access_key, 'MINID', '=', oldest_ms)
    redis.call('XADD', access_key, 'MAXLEN', '~', MAX_ENTRIES, '*', 'at_ms', string.format('%.0f', now_ms),
      'entry', entry, 'times', times, 'since_ms', string.format('%.0f', since_ms))
  end

  local function write(access_key, now_ms, entry)
    write_repeated(access_key, now_ms, entry, 1, now_ms)
  end

  -- Writes the newest entry of a fold, which stands for all repeats that the fold has counted.
  local function close_fold(access_key, folds_key, field, fold)
    local since_ms, last_ms, times = struct.unpack(FOLD_HEAD, fold)
    if times > 0 then write_repeated(access_key, last_ms, string.sub(fold, ENTRY_AT), times, since_ms) end
    redis.call('HDEL', folds_key, field)
  end

  local function is_over(fold, now_ms)
    local since_ms = struct.unpack(FOLD_HEAD, fold)
    return now_ms - since_ms >= FOLD_MS or now_ms < since_ms
  end

  -- Writes the first event of a kind, and counts further events of this kind within the hour. The kind is the user name
  -- of a failed login, or the address of the caller. Callers choose it, so the number of kinds in a group is limited.
  -- All further kinds count as one.
  local function write_folded(access_key, folds_key, now_ms, group, kind, entry)
    local field = group .. '\0' .. kind
    local fold = redis.call('HGET', folds_key, field)
    if not fold then
      local count = 0
      for _, other in ipairs(redis.call('HKEYS', folds_key)) do
        if string.sub(other, 1, #group + 1) == group .. '\0' then count = count + 1 end
      end
      if count >= MAX_FOLDS then
        field = group .. '\0'
        fold = redis.call('HGET', folds_key, field)
      end
    end
    if fold and is_over(fold, now_ms) then
      close_fold(access_key, folds_key, field, fold)
      fold = nil
    end
    if fold then
      local since_ms, _, times = struct.unpack(FOLD_HEAD, fold)
      redis.call('HSET', folds_key, field, struct.pack(FOLD_HEAD, since_ms, now_ms, times + 1) .. entry)
    else
      write(access_key, now_ms, entry)
      redis.call('HSET', folds_key, field, struct.pack(FOLD_HEAD, now_ms, now_ms, 0) .. entry)
    end
  end

  -- Writes and removes the folds whose hour is over.
  local function close_folds(access_key, folds_key, now_ms)
    local folds = redis.call('HGETALL', folds_key)
    for at = 1, #folds, 2 do
      if is_over(folds[at + 1], now_ms) then close_fold(access_key, folds_key, folds[at], folds[at + 1]) end
    end
  end

  return {write = write, write_folded = write_folded, close_folds = close_folds}
end)()
