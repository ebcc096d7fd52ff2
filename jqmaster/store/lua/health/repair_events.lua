#!lua flags=allow-oom
-- Repairs the data of events:
-- * Removes incomplete events, empty groups, and names of definitions that do not exist.
-- * Schedules groups that would never become due.
-- * Adds missing definitions to the list of those that events start.
-- * If an older master removed a definition, records the last instant at which the definition may have started a job.
-- KEYS epoch:string events:zset event_bodies:hash event_groups:zset event_slots:hash event_definitions:set
--     definitions:hash event_edition:string audit:stream forgotten_runs:hash gone_definitions:zset
-- ARGV now_ms tag epoch
--   wake_channel(empty: wake nobody)
--   event_edition(the new edition if this call adds to the definitions that events start)
--   audit_entry audit_max
--   [+ kind(event, slot, group, definition, memory or unlisted)
--      member(ID of the event or group, slot, or name; unlisted: the ETag and the name)]
-- REPLY ok:[number of each repaired item, from 1] | stale_epoch
-- CHECKS FIRST that the epoch is current, then the fault of each item
-- include lib/clock.lua
-- include lib/leadership.lua
-- include lib/identity/audit_log.lua
local epoch_key, events_key, bodies_key, groups_key, slots_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local names_key, definitions_key, edition_key, audit_key = KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local memory_key, gone_key = KEYS[10], KEYS[11]
local now_ms, epoch, wake_channel = clock.now_ms(ARGV[1]), ARGV[3], ARGV[4]
local tag = ARGV[2]
local event_edition, audit_entry, audit_max = ARGV[5], ARGV[6], tonumber(ARGV[7])
local FIRST, WIDTH = 8, 2

if not leadership.holds(epoch_key, epoch) then return {'stale_epoch'} end

local function key_of(group)
  return tag .. 'event_group:' .. group
end

local function has_events(group)
  local fields = redis.call('HMGET', key_of(group), 'definition', '1')
  return fields[1] and fields[2]
end

local is_due = false
-- By kind of fault: a function that repairs a fault if it still exists, and returns whether it did.
local mend = {}

function mend.event(id)
  local is_listed = redis.call('ZSCORE', events_key, id) ~= false
  if is_listed == (redis.call('HEXISTS', bodies_key, id) == 1) then return false end
  redis.call('ZREM', events_key, id)
  redis.call('HDEL', bodies_key, id)
  return true
end

function mend.slot(slot)
  local group = redis.call('HGET', slots_key, slot)
  if not group or redis.call('ZSCORE', groups_key, group) then return false end
  redis.call('HDEL', slots_key, slot)
  if has_events(group) then
    -- Schedule the group: its events were accepted, so its job must start.
    redis.call('ZADD', groups_key, now_ms, group)
    is_due = true
  else
    redis.call('UNLINK', key_of(group))
  end
  return true
end

function mend.group(group)
  if not redis.call('ZSCORE', groups_key, group) then return false end
  local fields = redis.call('HMGET', key_of(group), '1', 'slot')
  -- Leave events without a definition alone. An operator has to decide about them.
  if fields[1] then return false end
  if fields[2] and redis.call('HGET', slots_key, fields[2]) == group then redis.call('HDEL', slots_key, fields[2]) end
  redis.call('ZREM', groups_key, group)
  redis.call('UNLINK', key_of(group))
  return true
end

function mend.definition(name)
  if redis.call('HEXISTS', definitions_key, name) == 1 then return false end
  return redis.call('SREM', names_key, name) == 1
end

function mend.memory(name)
  if redis.call('HEXISTS', definitions_key, name) == 1 then return false end
  if redis.call('HDEL', memory_key, name) == 0 then return false end
  redis.call('ZADD', gone_key, 'GT', now_ms, name)
  return true
end

function mend.unlisted(member)
  local etag, name = string.sub(member, 1, layout.ETAG_LENGTH), string.sub(member, layout.ETAG_LENGTH + 1)
  -- If the definition has changed since it was inspected, repair nothing: events may no longer start it.
  if string.sub(redis.call('HGET', definitions_key, name) or '', 1, layout.ETAG_LENGTH) ~= etag then return false end
  if redis.call('SADD', names_key, name) == 0 then return false end
  redis.call('SET', edition_key, event_edition)
  return true
end

local done = {}
for at = FIRST, #ARGV, WIDTH do
  if mend[ARGV[at]](ARGV[at + 1]) then done[#done + 1] = (at - FIRST) / WIDTH + 1 end
end
if #done > 0 then audit_log.write(audit_key, now_ms, audit_entry, audit_max) end
if is_due and wake_channel ~= '' then redis.call('PUBLISH', wake_channel, 'events') end
return {'ok', done}
