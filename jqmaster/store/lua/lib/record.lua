-- The head of a job's record. Offsets are those of jqmaster/store/codec.py, counted from 1 inside strings.
local VERSION = 3
local STATE = {scheduled = 1, ready = 2, retrying = 3, running = 4, succeeded = 6, failed = 7, canceled = 8, skipped = 9}
local FLAG_CONFIRMED, FLAG_WATCHED = 4, 8
local HEAD_LENGTH, NAME_LENGTH_AT, NAME_AT = 136, 137, 138
local NO_ID = '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'
-- After the name: how many keyed gates, and the ID of each; or that only its lane knows them.
local GATE_LENGTH, MAX_GATES, IN_LANE = 24, 16, 255

local function has_flag(flags, flag)
  return math.floor(flags / flag) % 2 == 1
end

local function int64(s, at)
  return (struct.unpack('>i8', s, at))
end

local function hex(bytes)
  return string.format(string.rep('%02x', #bytes), string.byte(bytes, 1, -1))
end

local function uuid_text(bytes)
  local h = hex(bytes)
  return table.concat({string.sub(h, 1, 8), string.sub(h, 9, 12), string.sub(h, 13, 16), string.sub(h, 17, 20), string.sub(h, 21, 32)}, '-')
end

-- The first bytes of a record; empty where there is none or the key is no string. An error in the middle of a batch
-- would leave what came before it half done: a damaged record may hurt only itself.
local function beginning(key, last)
  local s = redis.pcall('GETRANGE', key, 0, last)
  return type(s) == 'string' and s or ''
end

-- A record's beginning: its head, name and keyed gates. Empty where it is missing or cut short. One shorter than
-- `MAX_BEGINNING` is the whole record.
local MAX_BEGINNING = HEAD_LENGTH + 202 + MAX_GATES * GATE_LENGTH
local function head_of(key)
  local s = beginning(key, MAX_BEGINNING - 1)
  if #s < NAME_AT then return '' end
  local gates_at = NAME_AT + string.byte(s, NAME_LENGTH_AT)
  if #s < gates_at then return '' end
  local count = string.byte(s, gates_at)
  if count ~= IN_LANE and #s < gates_at + count * GATE_LENGTH then return '' end
  return s
end

-- Name of the job whose record begins with `s`, as `head_of` gives it.
local function name_of(s)
  return string.sub(s, NAME_AT, NAME_LENGTH_AT + string.byte(s, NAME_LENGTH_AT))
end

-- Where the keyed gates of a record stand, and where what follows them.
local function gates_span(s)
  local at = NAME_AT + string.byte(s, NAME_LENGTH_AT)
  local count = string.byte(s, at)
  return at, at + 1 + (count ~= IN_LANE and count * GATE_LENGTH or 0)
end

-- Also to a list that grows to hundreds: `#` is a search.
local function add_pair(list, first, second)
  local n = #list
  list[n + 1], list[n + 2] = first, second
end

-- ZADD in one command; `list` alternates scores and members and never exceeds 1,000 elements (500 jobs a call).
local function add_all(key, list)
  return #list > 0 and redis.call('ZADD', key, unpack(list)) or 0
end

-- One command over many members, such as ZREM or SADD, and its count of them.
local function each(command, key, list)
  return #list > 0 and redis.call(command, key, unpack(list)) or 0
end
