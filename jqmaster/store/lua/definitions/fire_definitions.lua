#!lua
-- Fires definitions. Writes the run record of each instant, its job, and the clock of its definition in one step. Skips
-- a definition that was changed or fired since the caller read it.
-- KEYS epoch:string definitions:hash definitions_due:zset definition_clocks:hash rules:hash scheduled:zset
--     expiring:zset forgotten_runs:hash due_on_days:zset
-- ARGV now_ms tag
--   epoch(empty: any master may call)
--   wake_channel(empty: wake nobody)
--   finished_channel edition
--   lanes(format: lib/lanes/homes.lua)
--   mark(expected mark of the data; empty: do not check)
--   max_runs(maximum number of run records to keep)
--   runs_life_ms(how long to keep them)
--   batch(MessagePack: for each definition a list:
--       name, ETag, clock as the caller read it,
--       handled_ms: the last instant that is handled after this call,
--       due_at_ms or -1 for never,
--       overlap,
--       did: ID of its incarnation,
--       1 if it uses a calendar,
--       optionally: the end of the new clock, with its facts about a calendar)
--   [+ number(of its definition, from 1)
--      verdict(fires;
--        queued: the instant was queued before, and fires now;
--        manual: fires at now_ms, independently of the schedule;
--        backfill: fires only if the instant certainly started no job;
--        backfill_forgotten: fires also if it is unknown whether the instant started a job;
--        missed; skipped)
--      reason
--      instant(as in lib/definitions/run_records.lua)
--      job_id
--      terms(as in jobs/enqueue/enqueue.lua; empty: none)
--      digest rest_of_record]
-- REPLY ok:
--     now_ms,
--     the outcome of each entry:
--       fired, backlog_full, overlap, superseded, queued, missed, skipped,
--       known(its job exists already),
--       before(the instant fired before),
--       forgotten(it is unknown whether the instant fired),
--       changed(the definition is not as the caller read it),
--     [workers that ran a replaced job]
--   | stale_epoch | stale_constraints | other_data
-- CHECKS FIRST that the epoch is current;
--   that the mark of the data matches;
--   that the edition of the constraints is current;
--   that each definition still has the ETag and the clock that the caller read
-- include lib/clock.lua
-- include lib/leadership.lua
-- include lib/jobs/record.lua
-- include lib/lanes/lane_writes.lua
-- include lib/jobs/new_jobs.lua
-- include lib/jobs/cancellation.lua
-- include lib/batches/batches.lua
-- include lib/definitions/run_records.lua
local epoch_key, definitions_key, due_key, clocks_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local rules_key, scheduled_key, expiring_key, memory_key = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local now_ms, epoch, wake_channel, finished_channel = clock.now_ms(ARGV[1]), ARGV[3], ARGV[4], ARGV[5]
local tag, on_days_key = ARGV[2], KEYS[9]
local edition, mark, batch = ARGV[6], ARGV[8], cmsgpack.unpack(ARGV[11])
local is_unfinished, is_waiting = layout.is_unfinished, layout.is_waiting
local FIRST, WIDTH = 12, 8
-- How often to check a definition with a queued instant. The instant waits until the definition's newest job is over.
local LOOK_AGAIN_MS = 1000

if epoch ~= '' and not leadership.holds(epoch_key, epoch) then return {'stale_epoch'} end
local held = redis.call('HMGET', rules_key, 'edition', 'mark')
if mark ~= '' and held[2] ~= mark then return {'other_data'} end
if (held[1] or '0') ~= edition then return {'stale_constraints'} end

local names = {}
for n, item in ipairs(batch) do names[n] = item[1] end
local documents = redis.call('HMGET', definitions_key, unpack(names))
local clocks = redis.call('HMGET', clocks_key, unpack(names))
local memories = redis.call('HMGET', memory_key, unpack(names))
local definitions = {}
for n, item in ipairs(batch) do
  local handled_ms, last_job, queued = string.match(clocks[n] or '', '^(%-?%d+) (%S*) (%S*)')
  definitions[n] = {name = item[1], handled = item[4], due_at_ms = item[5], overlap = item[6], rest = item[9] or '',
    due_key = item[8] == 1 and on_days_key or due_key,
    is_present = documents[n] and string.sub(documents[n], 1, layout.ETAG_LENGTH) == item[2] and clocks[n] == item[3],
    last_job = last_job or '', queued = queued or '', made = nil, last_firing = nil,
    memory = run_records.memory_of(item[1], item[7], memories[n], tonumber(handled_ms) or item[4])}
end
local count = (#ARGV - FIRST + 1) / WIDTH
-- If several instants of this call replace one another, only the last one fires.
for i = 1, count do
  local at = FIRST + (i - 1) * WIDTH
  if ARGV[at + 1] == 'fires' or ARGV[at + 1] == 'queued' then definitions[tonumber(ARGV[at])].last_firing = i end
end

local canceled, freed_workers = {}, {}
-- Returns the head of the definition's newest job; nil: that job is over, or there is none.
local function unfinished(definition)
  if definition.last_job == '' or canceled[definition.last_job] then return nil end
  local head = record.read_head(tag .. 'job:' .. definition.last_job)
  return head ~= '' and is_unfinished[record.state_of(head)] and head or nil
end

-- Adds the job of an entry to the jobs that this call writes. `replaced`: the head of the job that it replaces, or nil.
-- Returns the outcome of the entry.
local function enqueue(definition, at, replaced)
  local id = ARGV[at + 4]
  if redis.call('EXISTS', tag .. 'job:' .. id) == 1 then
    definition.last_job = id
    return 'known'
  end
  local kind = new_jobs.kind_of(ARGV[at + 5], now_ms)
  local counted = replaced and is_waiting[record.state_of(replaced)] and new_jobs.counted_at(replaced) or {}
  if new_jobs.take_place(kind.number, counted) then return 'backlog_full' end
  new_jobs.add(id, kind, ARGV[at + 6], ARGV[at + 7])
  return 'fired'
end

-- Cancels a job after another one has replaced it.
local function cancel(id, head)
  local worker_id = cancellation.cancel(id, head, now_ms)
  canceled[id] = record.has_flag(record.flags_of(head), layout.FLAG.watched) and 'watched' or 'alone'
  if worker_id then freed_workers[#freed_workers + 1] = worker_id end
end

-- Fires an instant of the schedule if `overlap` allows it. Returns its outcome.
local function fire(definition, i, at)
  local overlap, last_job, head = definition.overlap, definition.last_job, nil
  if overlap == 'replace' and i ~= definition.last_firing then return 'superseded' end
  if overlap ~= 'allow' then
    head = not definition.made and unfinished(definition) or nil
    if definition.made or head then
      if overlap == 'forbid' then return 'overlap' end
      if overlap == 'queue' then return 'queued' end
    end
  end
  local became = enqueue(definition, at, head)
  -- Cancel the old job only if there was room for the new one.
  if head and became ~= 'backlog_full' then cancel(last_job, head) end
  if became == 'fired' then definition.last_job, definition.made = ARGV[at + 4], true end
  return became
end

local OUTCOMES = {fired = 'fired', known = 'fired', missed = 'missed'}
local REASONS = {overlap = 'overlap', superseded = 'superseded', backlog_full = 'backlog_full'}
local status = {}
for i = 1, count do
  local at = FIRST + (i - 1) * WIDTH
  local definition = definitions[tonumber(ARGV[at])]
  local verdict, reason, instant = ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  local name, became = definition.name, verdict
  if not definition.is_present then
    became = 'changed'
  elseif verdict == 'manual' then
    while run_records.has_any(name, instant) do instant = string.format('%.0f', tonumber(instant) + 1) end
    became = enqueue(definition, at)
    if became == 'fired' then definition.last_job, definition.made = ARGV[at + 4], true end
  elseif verdict == 'backfill' or verdict == 'backfill_forgotten' then
    local present, until_ms = run_records.at(name, instant), definition.memory.until_ms
    local is_forgotten = not present and until_ms and tonumber(string.match(instant, '^[^:]+')) <= until_ms
    became = present and string.match(present, '^%S+ fired ') and 'before'
      or is_forgotten and verdict == 'backfill' and 'forgotten' or enqueue(definition, at)
  elseif verdict == 'fires' or verdict == 'queued' then
    became = fire(definition, i, at)
  end
  -- The instant has its outcome, so it is no longer queued.
  if became ~= 'queued' and became ~= 'changed' and definition.queued == instant then definition.queued = '' end
  if became == 'queued' and definition.queued ~= instant then
    if definition.queued ~= '' then run_records.put(name, definition.queued, 'skipped', 'superseded', '', now_ms) end
    definition.queued = instant
  elseif became ~= 'queued' and became ~= 'changed' and became ~= 'before' and became ~= 'forgotten' then
    local outcome = OUTCOMES[became] or 'skipped'
    local job_id = outcome == 'fired' and ARGV[at + 4] or ''
    run_records.put(name, instant, outcome, REASONS[became] or reason, job_id, now_ms)
  end
  status[i] = became
end

new_jobs.write(scheduled_key, expiring_key)
local has_opened = lane_writes.write(nil)
batches.write(now_ms)
for _, definition in ipairs(definitions) do
  if definition.is_present then
    local name, due_at_ms, its_due_key = definition.name, definition.due_at_ms, definition.due_key
    redis.call('HSET', clocks_key, name, string.format('%.0f', definition.handled) .. ' ' .. definition.last_job .. ' '
      .. definition.queued .. definition.rest)
    if definition.queued ~= '' and (due_at_ms < 0 or due_at_ms > now_ms + LOOK_AGAIN_MS) then
      due_at_ms = now_ms + LOOK_AGAIN_MS
    end
    if due_at_ms < 0 then
      redis.call('ZREM', its_due_key, name)
    else
      redis.call('ZADD', its_due_key, due_at_ms, name)
    end
    run_records.trim(name, now_ms, definition.memory, memory_key)
  end
end
for id, telling in pairs(canceled) do
  if telling == 'watched' then redis.call('PUBLISH', finished_channel, id) end
end
new_jobs.tell(wake_channel)
if wake_channel ~= '' then
  for _, worker_id in ipairs(freed_workers) do redis.call('PUBLISH', wake_channel, 'freed:' .. worker_id .. ':1') end
  if has_opened then redis.call('PUBLISH', wake_channel, 'ready') end
end
return {'ok', now_ms, status, freed_workers}
