#!lua flags=no-writes
-- Reads how many jobs of each name are ready, and since when the first of them waits, as far as a bounded look tells:
-- in each lane the oldest job of each priority.
-- KEYS ready_counts:hash
-- ARGV now_ms tag [+ name]
-- REPLY ok:now_ms,[ready since_ms(0: not known)]
-- CHECKS FIRST nothing; it writes nothing
-- include lib/clock.lua
-- include lib/jobs/record.lua
local counts_key = KEYS[1]
local now_ms = clock.now_ms(ARGV[1])
local tag = ARGV[2]
local FIRST = 3
local MAX_LANES, MAX_PRIORITIES = 20, 5

-- Returns 0 if the record does not tell: see decode_claimed in jqmaster/store/codec.py.
local function ready_since(id)
  local head = record.read_head(tag .. 'job:' .. id)
  if head == '' or record.state_of(head) ~= layout.STATE.ready then return 0 end
  local due_ms, attempt = record.int64(head, layout.due_at_ms.at), record.attempts_of(head)
  return (due_ms > 0 or attempt == 0) and math.max(due_ms, record.int64(head, layout.created_at_ms.at)) or 0
end

local function first_since(name)
  local since_ms = 0
  for _, lane in ipairs(redis.call('ZRANGE', tag .. 'lanes:' .. name, 0, MAX_LANES - 1)) do
    local above = '-inf'
    for _ = 1, MAX_PRIORITIES do
      local first = redis.call('ZRANGE', tag .. 'ready:' .. lane, above, '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')
      if not first[1] then break end
      local ms = ready_since(first[1])
      if ms > 0 and (since_ms == 0 or ms < since_ms) then since_ms = ms end
      above = '(' .. first[2]
    end
  end
  return since_ms
end

local found = {}
for i = FIRST, #ARGV do
  local ready = tonumber(redis.call('HGET', counts_key, ARGV[i]) or '0')
  found[#found + 1] = ready
  found[#found + 1] = ready > 0 and first_since(ARGV[i]) or 0
end
return {'ok', now_ms, found}
