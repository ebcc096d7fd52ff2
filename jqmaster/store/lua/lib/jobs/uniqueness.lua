-- include lib/lazily.lua
-- include lib/jobs/record.lua
-- Uniqueness keys. The string `unique:{digest}` names the job that took the key last. The record of this job tells
-- whether it still holds the key, so starts and ends of jobs write nothing here. A claim counts as the start, because
-- the master does not know when the worker begins. If the worker never begins, `take_back` decides which job has the
-- key.
local uniqueness = lazily.made_by(function()
  local tag = ARGV.tag
  local ID_LENGTH, VALUE_LENGTH = 36, 45
  local is_unfinished, is_waiting = layout.is_unfinished, layout.is_waiting

  local function key_of(digest)
    return tag .. 'unique:' .. digest
  end

  -- Returns the end of a key's value, which comes after the job ID.
  local function ending_of(scope, until_ms)
    return struct.pack('>Bi8', scope, until_ms)
  end

  local function value_of(id, scope, until_ms)
    return id .. ending_of(scope, until_ms)
  end

  local function has_waited_only(head)
    return is_waiting[record.state_of(head)] and (record.attempts_of(head)) == 0
  end

  -- Returns the ID of the job in a key's value; nil if the value cannot be read.
  local function named_in(value)
    if type(value) ~= 'string' or #value ~= VALUE_LENGTH then return nil end
    return string.sub(value, 1, ID_LENGTH)
  end

  -- Returns whether the job is offered to a worker for the first time. Such a job may start at any moment, or return to
  -- the queue without a counted attempt.
  local function is_offered(head)
    local flags = record.flags_of(head)
    return record.state_of(head) == layout.STATE.running and (record.attempts_of(head)) == 1
      and not record.has_flag(flags, layout.FLAG.confirmed) and not record.has_flag(flags, layout.FLAG.has_challenge)
  end

  -- Returns the job that holds the key with this value now; nil: none does. `head`: empty if the record is gone.
  -- `has_not_started`: the job can still be replaced. `is_offered`: it is unknown whether it can still be replaced.
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

  -- Returns the holder of a key by its digest. Ignores a key of another type.
  local function holder_of(digest, now_ms)
    return holder_in(redis.pcall('GET', key_of(digest)), now_ms)
  end

  -- Writes the value of a key again with the same expiry, because the caller learns which job holds it. WAIT covers
  -- only writes of its own connection, and the earlier write may never have reached the replicas.
  local function write_again(key, holder)
    redis.call('SET', key, holder.value, 'KEEPTTL')
  end

  -- Returns the digest, the scope and the end of the window of a job's uniqueness key, from the job's record; nil: it
  -- has no key.
  local function of_record(key, head)
    local ok, fields = pcall(cmsgpack.unpack, record.extras_of(key, head))
    local unique = ok and type(fields) == 'table' and fields.unique
    if type(unique) ~= 'table' then return nil end
    local until_ms = unique[2] == layout.SCOPE.window
      and record.int64(head, layout.created_at_ms.at) + unique[4] or 0
    return unique[1], unique[2], until_ms
  end

  -- Gives a key back to a job that was offered but never started. The claim had released the key. If another job has
  -- taken the key meanwhile, and is unfinished or ran instead, returns that job; otherwise nil.
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

  -- Removes a key whose job is gone. If its window has not ended, keeps it until then.
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

  -- Removes the key of a job whose record is about to be removed, if the key still names this job.
  local function leave(id, key, now_ms)
    local head = record.read_head(key)
    if head == '' or not record.has_flag(record.flags_of(head), layout.FLAG.unique) then return end
    local digest = of_record(key, head)
    if digest and named_in(redis.pcall('GET', key_of(digest))) == id then drop(digest, now_ms) end
  end

  -- Returns whether any job of this shard has ever had a uniqueness key. If not, a script that removes jobs need not
  -- check each of them.
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
