#!lua flags=no-writes
-- Counts three kinds of jobs in some queues:
-- * ready jobs that could start now if workers had free slots,
-- * ready jobs that gates hold back,
-- * running jobs.
-- KEYS rules:hash running:zset
-- ARGV now_ms tag
--   max_lanes(maximum number of lanes to check)
--   max_jobs(maximum number of jobs with gates of their own to check)
--   max_running(maximum number of running jobs to check)
--   [+ queue is_keyed(1: its jobs may have their own gates)]
-- REPLY ok:
--     now_ms, ready, blocked,
--     is_exact(0: both counts are lower bounds),
--     ready_since_ms(of the first startable jobs of all lanes, when the earliest became ready; 0: unknown),
--     [worker_id_bytes and name, number of running jobs],
--     number of running jobs that were not checked
-- CHECKS FIRST nothing, because it only reads
-- include lib/clock.lua
-- include lib/jobs/record.lua
-- include lib/jobs/running_names.lua
-- include lib/constraints/gates.lua
-- include lib/constraints/weighing.lua
-- include lib/lanes/lanes.lua
local rules_key, running_key = KEYS[1], KEYS[2]
local now_ms, tag = clock.now_ms(ARGV[1]), ARGV[2]
local lanes_left, jobs_left, max_running = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local FIRST, WIDTH = 6, 2
local PAGE = 100

local edition = tonumber(redis.call('HGET', rules_key, 'edition') or 0)
local ready, blocked, since_ms, is_exact = 0, 0, 0, true
-- By gate: how many jobs this call has counted as ready there.
local taken = {}

local function room_at(ids)
  local room = gates.NO_ROOM_LIMIT
  for _, id in ipairs(ids) do
    local gate = gates.of(id, now_ms)
    local its_room = gate.room
    if gate.weight_default and its_room > 0 then
      -- Estimate the room. The exact weights are in the records of the jobs, which this count does not read.
      its_room, is_exact = weighing.usual_room(gate), false
    end
    room = math.min(room, its_room - (taken[id] or 0))
  end
  return math.max(0, room)
end

local function take_room(ids, count)
  for _, id in ipairs(ids) do taken[id] = (taken[id] or 0) + count end
end

-- Called for the first startable job of a lane. If the job became ready before `since_ms`, sets `since_ms` to that
-- time. See sample_backlog.lua.
local function note_wait(id)
  local head = record.read_head(tag .. 'job:' .. id)
  if head == '' or record.state_of(head) ~= layout.STATE.ready then return end
  local due_ms, attempt = record.int64(head, layout.due_at_ms.at), record.attempts_of(head)
  local ms = (due_ms > 0 or attempt == 0) and math.max(due_ms, record.int64(head, layout.created_at_ms.at)) or 0
  if ms > 0 and (since_ms == 0 or ms < since_ms) then since_ms = ms end
end

-- Checks `count` jobs of a lane one by one, because each has gates of its own. `room`: how many jobs the shared gates
-- let start. Returns how many of the jobs may start, and how many were checked.
local function count_singly(lane, count, room)
  local key, free, seen, first = tag .. 'ready:' .. lane.id, 0, 0, nil
  while seen < count and free < room and jobs_left > 0 do
    local ids = redis.call('ZRANGE', key, seen, seen + math.min(PAGE, jobs_left) - 1)
    if #ids == 0 then break end
    for _, id in ipairs(ids) do
      local head = record.read_head(tag .. 'job:' .. id)
      local own = head ~= '' and record.own_gates(head) or {}
      seen, jobs_left = seen + 1, jobs_left - 1
      if free < room and room_at(own) > 0 then
        take_room(own, 1)
        free, first = free + 1, first or id
      end
    end
  end
  if first then note_wait(first) end
  return free, seen
end

local is_keyed = {}
local function count_lane(lane, count)
  if lane.edition ~= edition then
    -- Count all jobs of the lane as blocked. None of them can start until the leader has matched them to the
    -- constraints.
    blocked, is_exact = blocked + count, false
    return
  end
  local room, free, seen = math.min(room_at(lane.shared), room_at(lane.keyed)), nil, count
  if room > 0 and #lane.keyed == 0 and is_keyed[lane.queue] then
    free, seen = count_singly(lane, count, room)
    -- If the shared gates have no room left, the other jobs are blocked, even if their own gates are open.
    if free >= room then seen = count end
    is_exact = is_exact and seen >= count
  else
    free = math.min(count, room)
    if free > 0 then note_wait(redis.call('ZRANGE', tag .. 'ready:' .. lane.id, 0, 0)[1]) end
  end
  take_room(lane.shared, free)
  take_room(lane.keyed, free)
  ready, blocked = ready + free, blocked + seen - free
end


local is_asked, names, found = {}, {}, {}
for i = FIRST, #ARGV, WIDTH do
  local name = string.match(ARGV[i], '^[^\t]*')
  is_asked[ARGV[i]], is_keyed[ARGV[i]] = true, ARGV[i + 1] == '1'
  if not names[name] then
    names[name] = true
    names[#names + 1] = name
  end
end
for _, name in ipairs(names) do
  local ids = redis.call('ZRANGE', tag .. 'lanes:' .. name, 0, lanes_left)
  if #ids > lanes_left then is_exact = false end
  for n = 1, math.min(#ids, lanes_left) do
    local lane = lanes.by_id(ids[n])
    local count = is_asked[lane.queue] and redis.call('ZCARD', tag .. 'ready:' .. lane.id) or 0
    if count > 0 then found[#found + 1] = {lane, count} end
  end
  lanes_left = math.max(0, lanes_left - #ids)
  -- Count jobs whose callbacks have arrived as ready, because they wait only for a worker.
  ready = ready + redis.call('ZCOUNT', tag .. 'callbacks:' .. name, '-inf', now_ms)
end
table.sort(found, function(a, b)
  a, b = a[1], b[1]
  return a.score < b.score or (a.score == b.score and a.member < b.member)
end)
for _, one in ipairs(found) do count_lane(one[1], one[2]) end

return {'ok', now_ms, ready, blocked, is_exact and 1 or 0, since_ms, running_names.of(running_key, 0, max_running)}
