#!lua flags=allow-oom
-- Freezes the data of a namespace in the source store:
-- * Removes the mark of the data, so that no job is enqueued in this store and no master opens the data.
-- * Takes the lead, so that no leader claims or settles jobs in this store.
-- A later mover of the same move freezes the data again. If the key `frozen` is lost or damaged, the holder of the lead
-- identifies the move, and the data get a new mark.
-- KEYS frozen:string generation:string rules:hash epoch:string leader:string
-- ARGV now_ms
--   id(of the move)
--   number(of the mover)
--   fresh(the mark to set if it was lost)
-- REPLY ok:mark of the data | no_data | other
-- CHECKS FIRST that no other move and no later mover has frozen the data;
--   that the data have a mark;
--   that this move has not already released the data
-- include lib/clock.lua
-- include lib/leadership.lua
-- include lib/namespaces/freezes.lua
local frozen_key, generation_key, rules_key, epoch_key, leader_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local now_ms, id, number, fresh = clock.now_ms(ARGV[1]), ARGV[2], tonumber(ARGV[3]), ARGV[4]
local SHORTLY_MS = 1000

local other, held, kept = string.match(redis.call('GET', frozen_key) or '', '^(%S+) (%d+) (%S*)$')
local mark
if other then
  if other ~= id or tonumber(held) > number then return {'other'} end
  mark = kept
else
  local is_lost = freezes.leads(leader_key) == id
  mark = redis.call('GET', generation_key) or (is_lost and fresh)
  if not mark then return {'no_data'} end
  -- Refuse a mover that was suspended while a later mover ended the move.
  if not is_lost and redis.call('HGET', rules_key, 'moved_by') == id then return {'other'} end
end

redis.call('SET', frozen_key, id .. ' ' .. string.format('%.0f', number) .. ' ' .. mark)
redis.call('DEL', generation_key)
redis.call('HDEL', rules_key, 'mark')
local epoch = leadership.begin(leader_key, epoch_key, now_ms, id, 'moved', SHORTLY_MS)
-- Take the lead with a lock that never expires, so that no master is elected here.
redis.call('SET', leader_key, epoch .. ':' .. id)
return {'ok', mark}
