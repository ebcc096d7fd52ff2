-- The head of a job's record. Offsets are those of jqmaster/store/codec.py, counted from 1 inside strings.
local VERSION = 2
local STATE = {scheduled = 1, ready = 2, retrying = 3, running = 4, succeeded = 6, failed = 7, canceled = 8, skipped = 9}
local FLAG_CONFIRMED, FLAG_WATCHED = 4, 8
local HEAD_LENGTH, NAME_LENGTH_AT, NAME_AT = 136, 137, 138
local NO_ID = string.rep('\0', 16)

local function has_flag(flags, flag)
  return math.floor(flags / flag) % 2 == 1
end

local function int64(s, at)
  return (struct.unpack('>i8', s, at))
end

local function hex(bytes)
  return (string.gsub(bytes, '.', function(c) return string.format('%02x', string.byte(c)) end))
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

-- A record's head and name; empty where it is missing or cut short.
local function head_of(key)
  local s = beginning(key, HEAD_LENGTH + 200)
  if #s < NAME_AT or #s < NAME_LENGTH_AT + string.byte(s, NAME_LENGTH_AT) then return '' end
  return s
end

-- Name of the job whose record begins with `s`, as `head_of` gives it.
local function name_of(s)
  return string.sub(s, NAME_AT, NAME_LENGTH_AT + string.byte(s, NAME_LENGTH_AT))
end

-- ZADD in one command; `list` alternates scores and members and never exceeds 1,000 elements (500 jobs a call).
local function add_all(key, list)
  if #list > 0 then redis.call('ZADD', key, unpack(list)) end
end

-- One command over many members, such as ZREM or SADD.
local function each(command, key, list)
  if #list > 0 then redis.call(command, key, unpack(list)) end
end
