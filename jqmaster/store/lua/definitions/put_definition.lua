#!lua flags=allow-oom
-- Makes, changes or removes a definition, also while the store is full, and writes down who did it. A removed one takes
-- its run records along; its jobs stay.
-- KEYS definitions:hash definitions_due:zset definition_clocks:hash runs:zset audit:stream event_definitions:set
--   event_edition:string
-- ARGV now_ms name expected_etag(empty: there must be none) document(empty: remove it)
--   expected_clock(as it was read) clock(as it is from now on) due_at_ms(when to look at it next; -1: never)
--   audit_entry audit_max max_definitions wake_channel(empty: nobody to wake)
--   event_edition(of the definitions that events start from now on; empty: events do not start this one)
-- REPLY ok | changed | full
-- CHECKS FIRST that nobody changed or fired it since it was read; that there is room for one more
-- include lib/clock.lua
-- include lib/identity/audit_log.lua
local definitions_key, due_key, clocks_key, runs_key, audit_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local now_ms, name, expected_etag, document = clock.now_ms(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]
local expected_clock, definition_clock, due_at_ms = ARGV[5], ARGV[6], ARGV[7]
local event_definitions_key, edition_key, event_edition = KEYS[6], KEYS[7], ARGV[12]
local audit_entry, audit_max, max_definitions, wake_channel = ARGV[8], ARGV[9], tonumber(ARGV[10]), ARGV[11]
local ETAG_LENGTH = 16

local present = redis.call('HGET', definitions_key, name) or ''
local present_clock = redis.call('HGET', clocks_key, name) or ''
if string.sub(present, 1, ETAG_LENGTH) ~= expected_etag or present_clock ~= expected_clock then return {'changed'} end
if present == '' and redis.call('HLEN', definitions_key) >= max_definitions then return {'full'} end
if document == '' then
  redis.call('HDEL', definitions_key, name)
  redis.call('HDEL', clocks_key, name)
  redis.call('ZREM', due_key, name)
  redis.call('UNLINK', runs_key)
else
  redis.call('HSET', definitions_key, name, document)
  redis.call('HSET', clocks_key, name, definition_clock)
  if due_at_ms == '-1' then redis.call('ZREM', due_key, name) else redis.call('ZADD', due_key, due_at_ms, name) end
end
if event_edition ~= '' then
  redis.call(document == '' and 'SREM' or 'SADD', event_definitions_key, name)
  redis.call('SET', edition_key, event_edition)
end
audit_log.write(audit_key, now_ms, audit_entry, audit_max)
if wake_channel ~= '' then redis.call('PUBLISH', wake_channel, 'definitions') end
return {'ok'}
