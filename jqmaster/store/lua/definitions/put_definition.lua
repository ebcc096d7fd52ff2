#!lua flags=allow-oom
-- Creates, changes or removes a definition and writes the audit entry. Works in a full store, too. Removing a
-- definition also removes its run records, but not its jobs. The store keeps the last instant that the definition may
-- have fired, so that a later definition of the same name does not fire old instants again.
-- KEYS definitions:hash definitions_due:zset definition_clocks:hash runs:zset audit:stream event_definitions:set
--     event_edition:string forgotten_runs:hash gone_definitions:zset calendars:hash definition_calendars:hash
--     due_on_days:zset
-- ARGV now_ms name
--   expected_etag(empty: must not exist yet)
--   document(empty: remove)
--   expected_clock(as the caller read it)
--   clock(the new value)
--   due_at_ms(when to check it next; -1: never)
--   audit_entry audit_max max_definitions
--   wake_channel(empty: wake nobody)
--   event_edition(new edition of the definitions that events start; empty: events start this definition neither before
--       nor after this call)
--   did(ID of this incarnation)
--   max_gone(maximum number of removed definitions that are remembered by name; older ones share one entry)
--   calendar(name of its calendar; empty: none)
--   calendar_etag(ETag of that calendar, as the caller read it)
--   former_calendar(name of the calendar that it used before this call; empty: none)
-- REPLY ok | changed | full
-- CHECKS FIRST that the definition has neither changed nor fired since the caller read it;
--   that a new one does not exceed the limit;
--   that its calendar has not changed since the caller read it
-- include lib/clock.lua
-- include lib/identity/audit_log.lua
local definitions_key, due_key, clocks_key, runs_key, audit_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local now_ms, name, expected_etag, document = clock.now_ms(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]
local expected_clock, definition_clock, due_at_ms = ARGV[5], ARGV[6], ARGV[7]
local event_definitions_key, edition_key, event_edition = KEYS[6], KEYS[7], ARGV[12]
local audit_entry, audit_max, max_definitions, wake_channel = ARGV[8], ARGV[9], tonumber(ARGV[10]), ARGV[11]
local memory_key, gone_key, did, max_gone = KEYS[8], KEYS[9], ARGV[13], tonumber(ARGV[14])
local calendars_key, users_key, on_days_key = KEYS[10], KEYS[11], KEYS[12]
local calendar, calendar_etag, former_calendar = ARGV[15], ARGV[16], ARGV[17]
local OF_OTHERS = ''
local own_due_key = calendar ~= '' and on_days_key or due_key
local former_due_key = former_calendar ~= '' and on_days_key or due_key

local present = redis.call('HGET', definitions_key, name) or ''
local present_clock = redis.call('HGET', clocks_key, name) or ''
if string.sub(present, 1, layout.ETAG_LENGTH) ~= expected_etag or present_clock ~= expected_clock then
  return {'changed'}
end
if present == '' and redis.call('HLEN', definitions_key) >= max_definitions then return {'full'} end
local stored_calendar = calendar ~= '' and redis.call('HGET', calendars_key, calendar) or ''
if calendar ~= '' and string.sub(stored_calendar, 1, layout.ETAG_LENGTH) ~= calendar_etag then return {'changed'} end

-- Remembers the last instant at which the removed definition may have started a job.
local function leave_memory()
  local memory = redis.call('HGET', memory_key, name)
  local has_until = not memory or string.match(memory, '^%S+ %S')
  redis.call('HDEL', memory_key, name)
  if not has_until and redis.call('EXISTS', runs_key) == 0 then return end
  redis.call('ZADD', gone_key, 'GT', string.match(present_clock, '^%-?%d+') or now_ms, name)
  local excess = redis.call('ZCARD', gone_key) - max_gone
  if excess <= 0 then return end
  local last_ms = redis.call('ZRANGE', gone_key, excess - 1, excess - 1, 'WITHSCORES')[2]
  if tonumber(last_ms) > tonumber(redis.call('HGET', memory_key, OF_OTHERS) or '-inf') then
    redis.call('HSET', memory_key, OF_OTHERS, last_ms)
  end
  redis.call('ZREMRANGEBYRANK', gone_key, 0, excess - 1)
end

-- Gives a new definition the memory of a deleted definition of the same name, so that no instant fires twice. All
-- instants of the new definition are later than now.
local function begin_memory()
  local until_ms = redis.call('ZSCORE', gone_key, name) or redis.call('HGET', memory_key, OF_OTHERS)
  local left_over = redis.call('HEXISTS', memory_key, name) == 1
  if left_over then until_ms = now_ms end
  until_ms = until_ms and string.format('%.0f', math.min(tonumber(until_ms), now_ms)) or ''
  redis.call('HSET', memory_key, name, did .. ' ' .. until_ms .. ' ')
  redis.call('ZREM', gone_key, name)
end

if document == '' then
  if event_edition == '' then leave_memory() else redis.call('HDEL', memory_key, name) end
  redis.call('HDEL', definitions_key, name)
  redis.call('HDEL', clocks_key, name)
  redis.call('ZREM', former_due_key, name)
  redis.call('UNLINK', runs_key)
else
  if present == '' and event_edition == '' then begin_memory() end
  redis.call('HSET', definitions_key, name, document)
  redis.call('HSET', clocks_key, name, definition_clock)
  if own_due_key ~= former_due_key then redis.call('ZREM', former_due_key, name) end
  if due_at_ms == '-1' then
    redis.call('ZREM', own_due_key, name)
  else
    redis.call('ZADD', own_due_key, due_at_ms, name)
  end
end
if calendar ~= former_calendar then
  if calendar == '' then
    redis.call('HDEL', users_key, name)
  else
    redis.call('HSET', users_key, name, calendar)
  end
end
if event_edition ~= '' then
  redis.call(document == '' and 'SREM' or 'SADD', event_definitions_key, name)
  redis.call('SET', edition_key, event_edition)
end
audit_log.write(audit_key, now_ms, audit_entry, audit_max)
if wake_channel ~= '' then redis.call('PUBLISH', wake_channel, 'definitions') end
return {'ok'}
