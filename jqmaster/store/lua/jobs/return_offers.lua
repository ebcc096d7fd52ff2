#!lua flags=allow-oom
-- Takes back claims that were never started (the worker refused them, or could not be reached): as if they had not been made.
-- KEYS epoch:string running:zset claims:set
-- ARGV tag epoch(empty: the worker itself does) worker_id worker_id_bytes wake_channel(empty: nobody to wake) [+ id token_bytes]
-- REPLY ok:[1 returned, 0 no longer ours] | stale_epoch
-- CHECKS FIRST epoch, then state, token and worker of each
-- include lib/record.lua
-- include lib/epoch.lua
-- include lib/lanes.lua
local epoch_key, running_key, claims_key = KEYS[1], KEYS[2], KEYS[3]
local epoch, worker_id, worker_id_bytes, wake_channel = ARGV[2], ARGV[3], ARGV[4], ARGV[5]
tag = ARGV[1]
local FIRST, WIDTH = 6, 2

if epoch ~= '' and not leads(epoch_key, epoch) then return {'stale_epoch'} end
local returned, ids, tokens = {}, {}, {}
for i = FIRST, #ARGV, WIDTH do
  local id = ARGV[i]
  local key = tag .. 'job:' .. id
  local head = head_of(key)
  if #head >= HEAD_LENGTH and string.byte(head, 2) == STATE.running and string.sub(head, 57, 72) == ARGV[i + 1] and string.sub(head, 73, 88) == worker_id_bytes
    and not has_flag(string.byte(head, 3), FLAG_CONFIRMED) then
    local attempt, failures, losses, offers = struct.unpack('>I4I4I2I2', head, 5)
    redis.call('SETRANGE', key, 1, string.char(STATE.ready) .. string.sub(head, 3, 4)
      .. struct.pack('>I4I4I2I2i8i8', attempt - 1, failures, losses, math.min(offers + 1, 65535), 0, 0))
    -- The token dies with the offer.
    redis.call('SETRANGE', key, 56, NO_ID .. NO_ID)
    local lane, own = home_of(head)
    lane_free(lane, own, id)
    lane_add(lane, struct.unpack('>i4', head, 89), id)
    lane_counts(lane, own, 0, 1)
    ids[#ids + 1] = id
    tokens[#tokens + 1] = ARGV[i + 1]
    returned[#returned + 1] = 1
  else
    returned[#returned + 1] = 0
  end
end
each('ZREM', running_key, ids)
each('SREM', claims_key, ids)
-- What never started does not count against a rate.
write_lanes(tokens)
if wake_channel ~= '' and #ids > 0 then
  redis.call('PUBLISH', wake_channel, 'freed:' .. worker_id .. ':' .. #ids)
  redis.call('PUBLISH', wake_channel, 'ready')
end
return {'ok', returned}
