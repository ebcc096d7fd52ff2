#!lua flags=allow-oom
-- Creates, changes or removes a constraint and writes the audit entry. The leader then matches unfinished jobs again.
-- Works in a full store, too, because pausing jobs may relieve the store.
-- KEYS rules:hash constraints:hash limits:hash old_limits:hash overrides:hash old_overrides:hash reopened:zset
--     counted:set audit:stream
-- ARGV now_ms name
--   expected_etag(empty: must not exist yet)
--   document(empty: remove)
--   cid(ID of the new document, 8 characters)
--   old_cid(ID of the document that it replaces; empty: none)
--   is_rematched(1: the change affects which jobs the constraint selects or counts)
--   audit_entry audit_max max_constraints wake_channel
--   limits(MessagePack: [field, value, …])
--   overrides(MessagePack: [gate, text, …])
--   tag
--   parts(MessagePack: [[cid, limits, overrides], …] of the internal constraints that keep reserved slots free)
--   gone_parts(MessagePack: [cid, …] of the internal constraints that only the old document has)
-- REPLY ok:edition | changed:present document(empty: it does not exist) | full
-- CHECKS FIRST that the constraint has not changed since the caller read it;
--   that a new constraint does not exceed the limit (full)
-- include lib/clock.lua
-- include lib/identity/audit_log.lua
local rules_key, constraints_key, limits_key, old_limits_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local overrides_key, old_overrides_key, reopened_key, counted_key = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local audit_key = KEYS[9]
local now_ms, name, expected_etag, document, cid = clock.now_ms(ARGV[1]), ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local old_cid, is_rematched = ARGV[6], ARGV[7] == '1'
local audit_entry, audit_max, max_constraints, wake_channel = ARGV[8], ARGV[9], tonumber(ARGV[10]), ARGV[11]
local limits, overrides = cmsgpack.unpack(ARGV[12]), cmsgpack.unpack(ARGV[13])
local tag, parts, gone_parts = ARGV[14], cmsgpack.unpack(ARGV[15]), cmsgpack.unpack(ARGV[16])

local present = redis.call('HGET', constraints_key, name) or ''
if string.sub(present, 1, layout.ETAG_LENGTH) ~= expected_etag then return {'changed', present} end
if present == '' and document ~= '' and redis.call('HLEN', constraints_key) >= max_constraints then return {'full'} end
-- Raises the field `version` or `edition`, and returns the new number:
-- * A new version makes caches read the constraints again.
-- * A new edition makes the leader match every unfinished job again.
-- The number is at least the present time in ms, so that a store that was restored to an older state uses no number
-- twice.
local function raised(field)
  local number = string.format('%.0f', math.max(tonumber(redis.call('HGET', rules_key, field) or 0) + 1, now_ms))
  redis.call('HSET', rules_key, field, number)
  return tonumber(number)
end
local version = raised('version')
local edition = is_rematched and raised('edition') or tonumber(redis.call('HGET', rules_key, 'edition') or '0')

-- Opens the gates of a constraint, or of one of its parts, by removing its limits.
local function lift(gone_cid, its_limits_key, its_overrides_key)
  redis.call('UNLINK', its_limits_key, its_overrides_key)
  redis.call('ZADD', reopened_key, version, gone_cid)
end

local function limit(its_cid, its_limits_key, its_overrides_key, its_limits, its_overrides)
  redis.call('DEL', its_limits_key, its_overrides_key)
  redis.call('HSET', its_limits_key, unpack(its_limits))
  for at = 1, #its_overrides, 500 do
    redis.call('HSET', its_overrides_key, unpack(its_overrides, at, math.min(at + 499, #its_overrides)))
  end
  redis.call('ZADD', reopened_key, version, its_cid)
  redis.call('SADD', counted_key, its_cid)
end

if old_cid ~= '' then lift(old_cid, old_limits_key, old_overrides_key) end
for _, gone_cid in ipairs(gone_parts) do
  lift(gone_cid, tag .. 'limits:' .. gone_cid, tag .. 'overrides:' .. gone_cid)
end
if document == '' then
  redis.call('HDEL', constraints_key, name)
else
  redis.call('HSET', constraints_key, name, document)
  if #limits > 0 then limit(cid, limits_key, overrides_key, limits, overrides) end
  for _, part in ipairs(parts) do
    limit(part[1], tag .. 'limits:' .. part[1], tag .. 'overrides:' .. part[1], part[2], part[3])
  end
end
audit_log.write(audit_key, now_ms, audit_entry, audit_max)
redis.call('PUBLISH', wake_channel, 'rules')
return {'ok', edition}
