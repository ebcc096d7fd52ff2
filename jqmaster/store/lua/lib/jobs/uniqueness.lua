-- include lib/lazily.lua
-- include lib/jobs/record.lua
-- Uniqueness keys. The string `unique:{digest}` names the job that took the key last. Whether that job still holds it
-- is decided when somebody asks: neither a start nor an end of a job writes anything here. A claim counts as a start,
-- because nobody knows when its worker begins. If the worker never does, `take_back` decides who has the key.
local uniqueness = lazily.made_by(function()
  local tag = ARGV.tag
  local ID_LENGTH, VALUE_LENGTH = 36, 45
  local is_unfinished, is_waiting = layout.is_unfinished, layout.is_waiting

  local function key_of(digest)
    return tag .. 'unique:' .. digest
  end

  -- The part of the value of a key that follows the ID.
  local function ending_of(scope, until_ms)
    return struct.pack('>Bi8', scope, until_ms)
  end

  local function value_of(id, scope, until_ms)
    return id .. ending_of(scope, until_ms)
  end

  local function has_waited_only(head)
    return is_waiting[record.state_of(head)] and (record.attempts_of(head)) == 0
  end

  -- The job that a value names; nil if it cannot be read.
  local function named_in(value)
    if type(value) ~= 'string' or #value ~= VALUE_LENGTH then return nil end
    return string.sub(value, 1, ID_LENGTH)
  end

  -- Returns whether the job is being offered for the first time: it may start at any moment, or wait again with nothing
  -- counted.
  local function is_offered(head)
    local flags = record.flags_of(head)
    return record.state_of(head) == layout.STATE.running and (record.attempts_of(head)) == 1
      and not record.has_flag(flags, layout.FLAG.confirmed) and not record.has_flag(flags, layout.FLAG.has_challenge)
  end

  -- The job that holds the key with this value now; nil where none does. `head` is empty if its record is gone.
  -- `has_not_started` says that it may still be replaced, and `is_offered` that nobody knows.
  local function holder_in(value, now_ms)
    local id = named_in(value)
    if not id then return nil end
    local scope, until_ms = struct.unpack('>Bi8', value, ID_LENGTH + 1)
    local head = record.read_head(tag .. 'job:' .. id)
    local state = record.state_of(head)
    local has_not_started = state ~= nil and has_waited_only(head)
    local is_held
    if scope == layout.SCOPE.until_start then is_held = has_not_started
    else is_held = is_unfinished[state] or (scope == layout.SCOPE.window and now_ms < until_ms) end
    return is_held and {id = id, head = head, value = value, has_not_started = has_not_started,
      is_offered = head ~= '' and is_offered(head)} or nil
  end

  -- The same by its digest. The key is of another type only if somebody else wrote it.
  local function holder_of(digest, now_ms)
    return holder_in(redis.pcall('GET', key_of(digest)), now_ms)
  end

  -- Writes what is there already: otherwise WAIT would confirm, to a caller who is told of the holder, a key that never
  -- replicated. The end of its life stays.
  local function write_again(key, holder)
    redis.call('SET', key, holder.value, 'KEEPTTL')
  end

  -- Returns what the record of a job says of its key: digest, scope, end of its window; nil where it says nothing.
  local function of_record(key, head)
    local ok, fields = pcall(cmsgpack.unpack, record.extras_of(key, head))
    local unique = ok and type(fields) == 'table' and fields.unique
    if type(unique) ~= 'table' then return nil end
    local until_ms = unique[2] == layout.SCOPE.window
      and record.int64(head, layout.created_at_ms.at) + unique[4] or 0
    return unique[1], unique[2], until_ms
  end

  -- A job that was offered and never started waits again: gives it back the key that its claim gave up. Returns the job
  -- that took the key meanwhile and is not over, or ran instead; nil if there is none.
  local function take_back(id, key, head)
    local digest, scope = of_record(key, head)
    if not digest or scope ~= layout.SCOPE.until_start then return nil end
    local named = named_in(redis.pcall('GET', key_of(digest)))
    if named == id then return nil end
    local state = named and record.state_of(record.read_head(tag .. 'job:' .. named))
    if is_unfinished[state] or state == layout.STATE.succeeded or state == layout.STATE.discarded then return named end
    redis.call('SET', key_of(digest), value_of(id, scope, 0))
    return nil
  end

  -- Removes a key that names no job any more, after its window.
  local function drop(digest, now_ms)
    local value = redis.pcall('GET', key_of(digest))
    local until_ms = 0
    if named_in(value) then
      local _, its_end_ms = struct.unpack('>Bi8', value, ID_LENGTH + 1)
      until_ms = its_end_ms
    end
    if until_ms > now_ms then
      redis.call('PEXPIRE', key_of(digest), string.format('%.0f', until_ms - now_ms))
    else
      redis.call('UNLINK', key_of(digest))
    end
  end

  -- Its record is about to be removed: a key that still names the job goes with it.
  local function leave(id, key, now_ms)
    local head = record.read_head(key)
    if head == '' or not record.has_flag(record.flags_of(head), layout.FLAG.unique) then return end
    local digest = of_record(key, head)
    if digest and named_in(redis.pcall('GET', key_of(digest))) == id then drop(digest, now_ms) end
  end

  -- Returns whether any job ever had a key on this shard: if not, a script that removes jobs need not look at each.
  local function is_used()
    return redis.call('EXISTS', tag .. 'unique_used') == 1
  end

  return {
    key_of = key_of, ending_of = ending_of, value_of = value_of, holder_in = holder_in, holder_of = holder_of,
    write_again = write_again, of_record = of_record, named_in = named_in, take_back = take_back, drop = drop,
    leave = leave,
    is_used = is_used,
  }
end)
