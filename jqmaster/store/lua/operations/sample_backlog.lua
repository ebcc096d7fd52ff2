#!lua flags=no-writes
-- Samples the backlog of names:
-- * the number of ready jobs,
-- * the time since when the oldest job has waited,
-- * the longest waiting job that no limit holds back.
-- Reads only the first job of each priority in each lane.
-- KEYS ready_counts:hash
-- ARGV now_ms tag [+ name queues(one a line)]
-- REPLY ok:
--     now_ms,
--     for each name:
--       number of ready jobs,
--       since_ms(0: unknown),
--       startable_since_ms(0: no such job is known),
--       startable_job_id
-- CHECKS FIRST nothing, because it only reads
-- include lib/clock.lua
-- include lib/jobs/record.lua
local counts_key = KEYS[1]
local now_ms = clock.now_ms(ARGV[1])
local tag = ARGV[2]
local FIRST, WIDTH = 3, 2
local ID_LENGTH = layout.lane.id_length
local MAX_LANES, MAX_GROUPS, MAX_PRIORITIES = 20, 20, 5

-- Returns the time at which a job became ready; 0: its record does not tell. See decode_claimed in
-- jqmaster/store/codec.py.
local function ready_since(id)
  local head = record.read_head(tag .. 'job:' .. id)
  if head == '' or record.state_of(head) ~= layout.STATE.ready then return 0 end
  local due_ms, attempt = record.int64(head, layout.due_at_ms.at), record.attempts_of(head)
  return (due_ms > 0 or attempt == 0) and math.max(due_ms, record.int64(head, layout.created_at_ms.at)) or 0
end

-- By lane: the longest waiting job among its first jobs, and since when this job has waited.
local seen = {}

local function first_of(lane)
  if seen[lane] then return seen[lane].since_ms, seen[lane].id end
  local since_ms, first_id, above = 0, '', '-inf'
  for _ = 1, MAX_PRIORITIES do
    local first = redis.call('ZRANGE', tag .. 'ready:' .. lane, above, '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')
    if not first[1] then break end
    local ms = ready_since(first[1])
    if ms > 0 and (since_ms == 0 or ms < since_ms) then since_ms, first_id = ms, first[1] end
    above = '(' .. first[2]
  end
  seen[lane] = {since_ms = since_ms, id = first_id}
  return since_ms, first_id
end

local function first_since(name)
  local since_ms = 0
  for _, lane in ipairs(redis.call('ZRANGE', tag .. 'lanes:' .. name, 0, MAX_LANES - 1)) do
    local ms = first_of(lane)
    if ms > 0 and (since_ms == 0 or ms < since_ms) then since_ms = ms end
  end
  return since_ms
end

local function first_startable(queues)
  local since_ms, job_id = 0, ''
  for queue in string.gmatch(queues, '[^\n]+') do
    local groups = redis.call('SMEMBERS', tag .. 'open_groups:' .. queue)
    for i = 1, math.min(#groups, MAX_GROUPS) do
      for _, member in ipairs(redis.call('ZRANGE', tag .. 'open:' .. groups[i], 0, MAX_LANES - 1)) do
        local ms, id = first_of(string.sub(member, -ID_LENGTH))
        if ms > 0 and (since_ms == 0 or ms < since_ms) then since_ms, job_id = ms, id end
      end
    end
  end
  return since_ms, job_id
end

local found = {}
for i = FIRST, #ARGV, WIDTH do
  local ready = tonumber(redis.call('HGET', counts_key, ARGV[i]) or '0')
  local since_ms, startable_ms, job_id = 0, 0, ''
  if ready > 0 then
    since_ms = first_since(ARGV[i])
    startable_ms, job_id = first_startable(ARGV[i + 1])
  end
  found[#found + 1] = ready
  found[#found + 1] = since_ms
  found[#found + 1] = startable_ms
  found[#found + 1] = job_id
end
return {'ok', now_ms, found}
