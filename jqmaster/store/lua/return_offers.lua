#!lua flags=allow-oom
-- Takes back claims that were never started (the worker refused them, or could not be reached): as if they had not been made.
-- KEYS epoch:string running:zset names:set claims:set
-- ARGV epoch job_prefix ready_prefix [+ id token_bytes]
-- REPLY ok:[1 returned, 0 no longer ours] | stale_epoch
-- CHECKS FIRST epoch, then state and token of each
-- include lib/record.lua
-- include lib/epoch.lua
local epoch_key, running_key, names_key, claims_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local epoch, job_prefix, ready_prefix = ARGV[1], ARGV[2], ARGV[3]
local FIRST, WIDTH = 4, 2

if not leads(epoch_key, epoch) then return {'stale_epoch'} end
local returned, ids, names = {}, {}, {}
for i = FIRST, #ARGV, WIDTH do
  local id = ARGV[i]
  local head = head_of(job_prefix .. id)
  if #head >= 128 and string.byte(head, 2) == STATE.running and string.sub(head, 57, 72) == ARGV[i + 1]
    and not has_flag(string.byte(head, 3), FLAG_CONFIRMED) then
    local attempt, failures, losses, offers = struct.unpack('>I4I4I2I2', head, 5)
    redis.call('SETRANGE', job_prefix .. id, 1, string.char(STATE.ready) .. string.sub(head, 3, 4)
      .. struct.pack('>I4I4I2I2i8i8', attempt - 1, failures, losses, math.min(offers + 1, 65535), 0, 0))
    -- The token dies with the offer.
    redis.call('SETRANGE', job_prefix .. id, 56, NO_ID .. NO_ID)
    local name = name_of(head)
    redis.call('ZADD', ready_prefix .. name, struct.unpack('>i4', head, 89), id)
    names[#names + 1] = name
    ids[#ids + 1] = id
    returned[#returned + 1] = 1
  else
    returned[#returned + 1] = 0
  end
end
each('ZREM', running_key, ids)
each('SREM', claims_key, ids)
each('SADD', names_key, names)
return {'ok', returned}
