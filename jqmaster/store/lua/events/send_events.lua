#!lua
-- Accepts events. Writes each event together with the jobs, groups and records of the definitions that it matches. An
-- event is a duplicate if its key was seen within the window. A duplicate starts nothing and gets the answer of the
-- first event with that key.
-- KEYS rules:hash scheduled:zset expiring:zset definition_clocks:hash event_edition:string events:zset
--     event_bodies:hash event_groups:zset event_slots:hash
-- ARGV now_ms tag
--   wake_channel(empty: wake nobody)
--   finished_channel edition
--   lanes(format: lib/lanes/homes.lua)
--   mark(expected mark of the data; empty: do not check)
--   max_runs(maximum number of run records to keep)
--   runs_life_ms(how long to keep them)
--   event_edition(of the definitions that the caller matched)
--   dedupe_ms(how long a key is remembered)
--   max_events(maximum number of events to keep)
--   events_life_ms(how long to keep them)
--   max_argument_bytes(of the list of arguments of one group)
--   definitions(MessagePack: [[name, did, overlap], …])
--   [+ event(MessagePack: [id, digest of its key or empty, body, list of effects].
--         Each effect begins with: number of the definition from 1, verdict, reason, job_id.
--         After the verdicts `fires` and `skipped` follow: terms as in jobs/enqueue/enqueue.lua, digest,
--             rest_of_record.
--         After the verdicts `collect` and `debounce` follow: [slot, most or -1, wait_ms, max_ms or -1], empty,
--             argument)]
-- REPLY ok:
--     now_ms,
--     [is_duplicate, event_id, lines of `definition effect reason job_id`](of each event),
--     [workers that ran a replaced job]
--   | stale_constraints | stale_definitions | other_data
-- CHECKS FIRST that the mark of the data matches;
--   that the edition of the constraints is current;
--   that the edition of the definitions is current;
--   which keys were seen before
-- include lib/clock.lua
-- include lib/lanes/lane_writes.lua
-- include lib/events/event_jobs.lua
-- include lib/batches/batches.lua
-- include lib/definitions/run_records.lua
-- include lib/lists.lua
local rules_key, scheduled_key, expiring_key, clocks_key, edition_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local events_key, bodies_key, groups_key, slots_key = KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local now_ms, wake_channel, finished_channel = clock.now_ms(ARGV[1]), ARGV[3], ARGV[4]
local tag = ARGV[2]
local edition, mark, event_edition = ARGV[5], ARGV[7], ARGV[10]
local dedupe_ms, max_events, events_life_ms = ARGV[11], tonumber(ARGV[12]), tonumber(ARGV[13])
local max_argument_bytes, definitions = tonumber(ARGV[14]), cmsgpack.unpack(ARGV[15])
local FIRST = 16
local MAX_REMOVED = 2000

local held = redis.call('HMGET', rules_key, 'edition', 'mark')
if mark ~= '' and held[2] ~= mark then return {'other_data'} end
if (held[1] or '0') ~= edition then return {'stale_constraints'} end
if (redis.call('GET', edition_key) or '') ~= event_edition then return {'stale_definitions'} end

local now_text = string.format('%.0f', now_ms)
local count = #ARGV - FIRST + 1
local events, seen_keys, seen_at = {}, {}, {}
for i = 1, count do
  events[i] = cmsgpack.unpack(ARGV[FIRST + i - 1])
  if events[i][2] ~= '' then
    seen_keys[#seen_keys + 1] = tag .. 'event_key:' .. events[i][2]
    seen_at[i] = #seen_keys
  end
end
local answers = #seen_keys > 0 and redis.call('MGET', unpack(seen_keys)) or {}

-- If several events of this call replace one another's jobs, only the last one fires.
local last_firing, repeated = {}, {}
for i = 1, count do
  local digest = events[i][2]
  local is_repeat = digest ~= '' and (repeated[digest] or answers[seen_at[i]])
  if digest ~= '' then repeated[digest] = true end
  if not is_repeat then
    for _, entry in ipairs(events[i][4]) do
      if entry[2] == 'fires' then last_firing[entry[1]] = i end
    end
  end
end

local is_due = false
-- Closes a group, so its job becomes due.
local function close(slot, group)
  redis.call('HDEL', slots_key, slot)
  redis.call('ZADD', groups_key, now_ms, group)
  is_due = true
end

-- Adds an event to the open group of its slot, or to a new group. Returns the ID of the group. The job of the group
-- will have the same ID.
local function put_aside(definition, entry, event_id, is_debounced)
  local slot, most, wait_ms, max_ms = entry[5][1], entry[5][2], entry[5][3], entry[5][4]
  local argument, group = entry[7], redis.call('HGET', slots_key, slot)
  local since_ms, size = now_ms, 0
  if group then
    local values = redis.call('HMGET', tag .. 'event_group:' .. group, 'since', 'bytes')
    since_ms, size = tonumber(values[1]), tonumber(values[2] or 0)
    -- If the group has lost data or has no room for this event, close it and start a new group.
    if not since_ms or (not is_debounced and size + #argument > max_argument_bytes) then
      close(slot, group)
      if redis.call('EXISTS', tag .. 'event_group:' .. group) == 0 then redis.call('ZREM', groups_key, group) end
      group, since_ms, size = nil, now_ms, 0
    end
  end
  local is_new = not group
  group = group or entry[4]
  local key = tag .. 'event_group:' .. group
  if is_new then
    redis.call('HSET', slots_key, slot, group)
    redis.call('HSET', key, 'definition', definition[1], 'did', definition[2], 'slot', slot, 'since', now_text)
    is_due = true
  end
  if is_debounced then
    local before = redis.call('HGET', key, '1')
    if before then
      run_records.add(definition[1], now_text, 'skipped', 'debounced', '', now_text, cmsgpack.unpack(before)[1])
    end
    redis.call('HSET', key, '1', cmsgpack.pack({event_id, argument}))
    local due_ms = now_ms + wait_ms
    if max_ms >= 0 then due_ms = math.min(due_ms, since_ms + max_ms) end
    redis.call('ZADD', groups_key, due_ms, group)
  else
    -- The number of this event in its group. Besides one field for each event, the hash has five fields: definition,
    -- did, slot, since and bytes.
    local number = is_new and 1 or redis.call('HLEN', key) - 4
    redis.call('HSET', key, tostring(number), cmsgpack.pack({event_id, argument}), 'bytes', size + #argument)
    if is_new then redis.call('ZADD', groups_key, now_ms + wait_ms, group) end
    if number >= most then close(slot, group) end
  end
  return group
end

local replies, kept, bodies, taken = {}, {}, {}, {}
for i = 1, count do
  local event = events[i]
  local id, digest = event[1], event[2]
  local before = digest ~= '' and (taken[digest] or answers[seen_at[i]])
  if before then
    local at = string.find(before, '\n', 1, true)
    lists.add_pair(replies, 1, string.sub(before, 1, at - 1))
    replies[#replies + 1] = string.sub(before, at + 1)
  else
    local lines = {}
    for n, entry in ipairs(event[4]) do
      local definition, verdict, reason, job_id = definitions[entry[1]], entry[2], entry[3], entry[4]
      local name, effect = definition[1], nil
      if verdict == 'fires' then
        local became = event_jobs.start(clocks_key, name, definition[3], job_id, entry[5], entry[6], entry[7], now_ms,
          last_firing[entry[1]] == i)
        effect = became == 'fired' and 'fired' or 'skipped'
        if effect == 'skipped' then reason, job_id = became, '' end
      elseif verdict == 'skipped' then
        effect, job_id = 'skipped', ''
      else
        effect, job_id = 'waiting', put_aside(definition, entry, id, verdict == 'debounce')
      end
      if effect ~= 'waiting' then run_records.add(name, now_text, effect, reason, job_id, now_text, id) end
      lines[n] = name .. ' ' .. effect .. ' ' .. reason .. ' ' .. job_id
    end
    local text = table.concat(lines, '\n')
    if digest ~= '' then
      taken[digest] = id .. '\n' .. text
      redis.call('SET', tag .. 'event_key:' .. digest, taken[digest], 'PX', dedupe_ms)
    end
    lists.add_pair(kept, now_ms, id)
    lists.add_pair(bodies, id, cmsgpack.pack({now_ms, text, event[3]}))
    lists.add_pair(replies, 0, id)
    replies[#replies + 1] = text
  end
end

event_jobs.write(clocks_key, scheduled_key, expiring_key)
local has_opened = lane_writes.write(nil)
batches.write(now_ms)
run_records.write_added(now_ms)
if #kept > 0 then
  lists.zadd(events_key, kept)
  redis.call('HSET', bodies_key, unpack(bodies))
  -- Remove events that are too old or too many. Each call removes at most MAX_REMOVED events.
  local oldest_ms = string.format('%.0f', now_ms - events_life_ms)
  local gone = redis.call('ZRANGE', events_key, '-inf', '(' .. oldest_ms, 'BYSCORE', 'LIMIT', 0, MAX_REMOVED)
  local over = math.min(redis.call('ZCARD', events_key) - max_events, MAX_REMOVED)
  if over > #gone then gone = redis.call('ZRANGE', events_key, 0, over - 1) end
  if #gone > 0 then
    redis.call('ZREM', events_key, unpack(gone))
    redis.call('HDEL', bodies_key, unpack(gone))
  end
end
local freed_workers = event_jobs.tell(wake_channel, finished_channel)
if wake_channel ~= '' then
  if has_opened then redis.call('PUBLISH', wake_channel, 'ready') end
  if is_due then redis.call('PUBLISH', wake_channel, 'events') end
end
return {'ok', now_ms, replies, freed_workers}
