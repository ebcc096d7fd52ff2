#!lua flags=allow-oom
-- Creates, changes or removes a calendar and writes the audit entry. Works in a full store, too. The definitions that
-- use the calendar become due, and the leader then plans their instants again.
-- KEYS calendars:hash definition_calendars:hash definition_clocks:hash due_on_days:zset audit:stream
-- ARGV now_ms name
--   expected_etag(empty: must not exist yet)
--   document(empty: remove)
--   audit_entry audit_max max_calendars
--   max_named(maximum number of definitions that the reply names)
--   wake_channel(empty: wake nobody)
--   [+ passed_over(name of a definition with an unreadable clock, which is not checked)]
-- REPLY ok | changed | full | behind
--   | in_use:number of definitions that use the calendar,[names of some]
-- CHECKS FIRST that the calendar has not changed since the caller read it;
--   that a new calendar does not exceed the limit (full);
--   that no definition uses a calendar that is to be removed (in_use);
--   that the clock of each definition that uses the calendar names the calendar's present ETag (behind)
-- include lib/clock.lua
-- include lib/identity/audit_log.lua
local calendars_key, users_key, clocks_key, due_key, audit_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local now_ms, name, expected_etag, document = clock.now_ms(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]
local audit_entry, audit_max, max_calendars = ARGV[5], ARGV[6], tonumber(ARGV[7])
local max_named, wake_channel = tonumber(ARGV[8]), ARGV[9]
local FIRST = 10
local CHUNK = 1000

local present = redis.call('HGET', calendars_key, name) or ''
if string.sub(present, 1, layout.ETAG_LENGTH) ~= expected_etag then return {'changed'} end
if present == '' and redis.call('HLEN', calendars_key) >= max_calendars then return {'full'} end

local users = {}
local pairs_of_users = present == '' and {} or redis.call('HGETALL', users_key)
for n = 1, #pairs_of_users, 2 do
  if pairs_of_users[n + 1] == name then users[#users + 1] = pairs_of_users[n] end
end
if document == '' and #users > 0 then
  local named = {}
  for n = 1, math.min(max_named, #users) do named[n] = users[n] end
  return {'in_use', #users, named}
end
local is_passed_over = {}
for n = FIRST, #ARGV do is_passed_over[ARGV[n]] = true end
for first = 1, #users, CHUNK do
  local last = math.min(first + CHUNK - 1, #users)
  for n, text in ipairs(redis.call('HMGET', clocks_key, unpack(users, first, last))) do
    local is_behind = not string.find(text or '', ' ' .. expected_etag .. ' ', 1, true)
    if is_behind and not is_passed_over[users[first + n - 1]] then return {'behind'} end
  end
end

if document == '' then
  redis.call('HDEL', calendars_key, name)
else
  redis.call('HSET', calendars_key, name, document)
end
for first = 1, #users, CHUNK do
  local due = {}
  for n = first, math.min(first + CHUNK - 1, #users) do due[#due + 1], due[#due + 2] = now_ms, users[n] end
  redis.call('ZADD', due_key, unpack(due))
end
audit_log.write(audit_key, now_ms, audit_entry, audit_max)
if wake_channel ~= '' and #users > 0 then redis.call('PUBLISH', wake_channel, 'definitions') end
return {'ok'}
