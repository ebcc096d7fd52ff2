#!lua flags=allow-oom
-- Replaces the states of notices, all or none. Works in a full store, too, because notices must also report a full
-- store.
-- KEYS epoch:string notices:hash notice_states:hash
-- ARGV epoch(empty: any master may call)
--   [+ name
--      expected_edition(empty: must not exist yet)
--      state(empty: remove)]
-- REPLY ok | changed | stale_epoch
-- CHECKS FIRST that the epoch is current;
--   that no state has changed since the caller read it, and that its notice exists
-- include lib/leadership.lua
local epoch_key, notices_key, states_key = KEYS[1], KEYS[2], KEYS[3]
local epoch = ARGV[1]
local FIRST, WIDTH = 2, 3

-- Returns whether a state belongs to the masters themselves and not to a notice. The name of such a state begins with a
-- colon.
local function is_own(name) return string.sub(name, 1, 1) == ':' end

if epoch ~= '' and not leadership.holds(epoch_key, epoch) then return {'stale_epoch'} end
for i = FIRST, #ARGV, WIDTH do
  local name, expected_edition = ARGV[i], ARGV[i + 1]
  local present = redis.call('HGET', states_key, name) or ''
  if string.sub(present, 1, layout.ETAG_LENGTH) ~= expected_edition then return {'changed'} end
  if not is_own(name) and redis.call('HEXISTS', notices_key, name) == 0 then return {'changed'} end
end
for i = FIRST, #ARGV, WIDTH do
  local name, state = ARGV[i], ARGV[i + 2]
  if state == '' then redis.call('HDEL', states_key, name) else redis.call('HSET', states_key, name, state) end
end
return {'ok'}
