-- Reads and writes the head of a job's record. lib/layout.lua has its layout.
local record = (function()
  local byte, sub, unpack_bytes = string.byte, string.sub, struct.unpack
  local NAME_AT, NAME_LENGTH_AT, IN_LANE = layout.name.at, layout.name.length_at, layout.gates.in_lane

  local function has_flag(flags, flag)
    return math.floor(flags / flag) % 2 == 1
  end

  local function int64(s, at)
    return (unpack_bytes('>i8', s, at))
  end

  local function hex(bytes)
    return string.format(string.rep('%02x', #bytes), byte(bytes, 1, -1))
  end

  local function uuid_text(bytes)
    local h = hex(bytes)
    return table.concat({sub(h, 1, 8), sub(h, 9, 12), sub(h, 13, 16), sub(h, 17, 20), sub(h, 21, 32)}, '-')
  end

  -- Returns at most the first `length` bytes of a record; empty if the key does not exist or is not a string. Raises no
  -- error. An error would stop a script in the middle, and a damaged record must not affect other jobs.
  local function beginning(key, length)
    local s = redis.pcall('GETRANGE', key, 0, length - 1)
    return type(s) == 'string' and s or ''
  end

  -- Returns the head, the name and the gates of a record as one string; empty if one of them is missing or cut short.
  -- `s`: the beginning of the record, or the whole record. Also returns the two offsets of `gates_span`.
  local function checked_head(s)
    local length = #s
    if length < NAME_AT then return '' end
    local gates_at = NAME_AT + byte(s, NAME_LENGTH_AT)
    if length < gates_at then return '' end
    local count = byte(s, gates_at)
    local behind = gates_at + 1 + (count ~= IN_LANE and count * layout.gates.length or 0)
    if length < behind - 1 then return '' end
    return s, gates_at, behind
  end

  -- Reads the record at a key and returns the results of `checked_head`. If the head is shorter than
  -- `layout.longest_beginning`, the record has nothing after it.
  local function read_head(key)
    return checked_head(beginning(key, layout.longest_beginning))
  end

  -- In the functions below, `head` is the result of `read_head`, unless the comment of a function says otherwise.

  local function name_of(head)
    return sub(head, NAME_AT, NAME_LENGTH_AT + byte(head, NAME_LENGTH_AT))
  end

  -- Returns the offsets of the gates and of the part after them.
  local function gates_span(head)
    local at = NAME_AT + byte(head, NAME_LENGTH_AT)
    local count = byte(head, at)
    return at, at + 1 + (count ~= IN_LANE and count * layout.gates.length or 0)
  end

  -- Returns the list of gates in `bytes`. The byte at offset `at` is their number.
  local function gates_at(bytes, at)
    local count = byte(bytes, at)
    -- Create a list of one gate at once. Most jobs have at most one gate, and growing a list reallocates it.
    if count == 1 then return {sub(bytes, at + 1, at + layout.gates.length)} end
    local list = {}
    if count == IN_LANE then return list end
    for i = at + 1, at + count * layout.gates.length, layout.gates.length do
      list[#list + 1] = sub(bytes, i, i + layout.gates.length - 1)
    end
    return list
  end

  -- Returns the keyed gates in a job's record; nil: none. A record lists them only while the job is in a base lane.
  local function own_gates(head)
    local at = NAME_AT + byte(head, NAME_LENGTH_AT)
    if byte(head, at) == 0 then return nil end
    local own = gates_at(head, at)
    return #own > 0 and own or nil
  end

  -- Returns the stored extras of a record; empty if there are none or if they are cut short.
  local LENGTH_BYTES = 4
  local function extras_of(key, head)
    local _, at = gates_span(head)
    -- Offsets count from 0, positions from 1.
    local offset = at - 1
    local length = #head >= offset + LENGTH_BYTES and sub(head, at, offset + LENGTH_BYTES)
      or redis.call('GETRANGE', key, offset, offset + LENGTH_BYTES - 1)
    if #length < LENGTH_BYTES then return '' end
    offset = offset + LENGTH_BYTES
    local last = offset + unpack_bytes('>I4', length)
    if last == offset then return '' end
    if #head >= last then return sub(head, offset + 1, last) end
    return redis.call('GETRANGE', key, offset, last - 1)
  end

  -- Returns the extras in a whole record.
  local function extras_in(job)
    local _, at = gates_span(job)
    return sub(job, at + LENGTH_BYTES, at + LENGTH_BYTES + unpack_bytes('>I4', job, at) - 1)
  end

  -- Returns the part of a whole record after its extras.
  local function behind_extras(job)
    local _, at = gates_span(job)
    return sub(job, at + LENGTH_BYTES + unpack_bytes('>I4', job, at))
  end

  -- Returns the code of the state; nil if the head is empty.
  local function state_of(head)
    return (byte(head, layout.state.at))
  end

  local function flags_of(head)
    return (byte(head, layout.flags.at))
  end

  local function token_of(head)
    return sub(head, layout.token.at, layout.token.last)
  end

  local function worker_of(head)
    return sub(head, layout.worker_id.at, layout.worker_id.last)
  end

  local function lane_id_of(head)
    return sub(head, layout.lane_id.at, layout.lane_id.last)
  end

  local function priority_of(head)
    return (unpack_bytes('>i4', head, layout.priority.at))
  end

  -- Returns the numbers of attempts, failures, losses and returned offers.
  local function attempts_of(head)
    return unpack_bytes('>I4I4I2I2', head, layout.attempt.at)
  end

  -- Returns whether the job's newest claim has this token and belongs to this worker. `head` must reach to the end of
  -- the worker ID.
  local function is_claim_of(head, token_bytes, worker_id_bytes)
    return #head >= layout.worker_id.last and token_of(head) == token_bytes and worker_of(head) == worker_id_bytes
  end

  -- Returns whether the job runs under this claim: see `is_claim_of`.
  local function is_held_by(head, token_bytes, worker_id_bytes)
    return is_claim_of(head, token_bytes, worker_id_bytes) and state_of(head) == layout.STATE.running
  end

  -- Writes a byte of the record again on a repeated call. WAIT covers only writes of its own connection, and the write
  -- of the first call may never have reached the replicas. The byte keeps its value, even if another release wrote it.
  local function write_again(key, head)
    redis.call('SETRANGE', key, layout.version.offset, sub(head, layout.version.at, layout.version.last))
  end

  local function set_state(key, state)
    redis.call('SETRANGE', key, layout.state.offset, string.char(state))
  end

  local function set_flags(key, flags)
    redis.call('SETRANGE', key, layout.flags.offset, string.char(flags))
  end

  -- Writes the final state of a job, and its cause.
  local function set_ended(key, state, flags, cause, now_ms)
    redis.call('SETRANGE', key, layout.state.offset, string.char(state, flags, cause))
    redis.call('SETRANGE', key, layout.finished_at_ms.offset, struct.pack('>i8', now_ms))
  end

  -- Clears the job's token, so that the holder of the token becomes stale.
  local function void_token(key)
    redis.call('SETRANGE', key, layout.token.offset, layout.NO_ID)
  end

  local function set_int64(key, offset, number)
    redis.call('SETRANGE', key, offset, struct.pack('>i8', number))
  end

  return {
    has_flag = has_flag, int64 = int64, hex = hex, uuid_text = uuid_text, beginning = beginning,
    checked_head = checked_head, read_head = read_head,
    name_of = name_of, gates_span = gates_span, gates_at = gates_at, own_gates = own_gates, extras_of = extras_of,
    extras_in = extras_in, behind_extras = behind_extras,
    state_of = state_of, flags_of = flags_of, token_of = token_of,
    worker_of = worker_of, lane_id_of = lane_id_of, priority_of = priority_of, attempts_of = attempts_of,
    is_claim_of = is_claim_of,
    is_held_by = is_held_by, write_again = write_again, set_state = set_state, set_ended = set_ended,
    void_token = void_token, set_flags = set_flags, set_int64 = set_int64,
  }
end)()
