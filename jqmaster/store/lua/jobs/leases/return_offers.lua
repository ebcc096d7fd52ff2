#!lua flags=allow-oom
-- Takes back claims that were never started (the worker refused them, or could not be reached): as if they had not been
-- made.
-- KEYS epoch:string running:zset claims:set
-- ARGV tag epoch(empty: the worker itself does) worker_id worker_id_bytes wake_channel(empty: nobody to wake) [+ id
--   token_bytes]
-- REPLY ok:[1 returned, 0 no longer ours] | stale_epoch
-- CHECKS FIRST epoch, then state, token and worker of each
-- include lib/leadership.lua
-- include lib/jobs/record.lua
-- include lib/lists.lua
-- include lib/lanes/lanes.lua
-- include lib/lanes/lane_writes.lua
-- include lib/challenges/challenges.lua
local epoch_key, running_key, claims_key = KEYS[1], KEYS[2], KEYS[3]
local epoch, worker_id, worker_id_bytes, wake_channel = ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local tag = ARGV[1]
local FIRST, WIDTH = 6, 2

if epoch ~= '' and not leadership.holds(epoch_key, epoch) then return {'stale_epoch'} end
local returned, ids, tokens = {}, {}, {}
for i = FIRST, #ARGV, WIDTH do
  local id, token_bytes = ARGV[i], ARGV[i + 1]
  local key = tag .. 'job:' .. id
  local head = record.read_head(key)
  if record.is_held_by(head, token_bytes, worker_id_bytes)
    and not record.has_flag(record.flags_of(head), layout.FLAG.confirmed) then
    local attempt, failures, losses, offers = record.attempts_of(head)
    local challenge = challenges.open_one(id, head)
    -- A job that was offered for its callbacks waits for another worker that runs them.
    local goes_on = challenge and challenges.is_answered(challenge)
    local flags, target = record.flags_of(head), goes_on and layout.STATE.awaiting_callback or layout.STATE.ready
    if not goes_on and record.has_flag(flags, layout.FLAG.has_challenge) then
      if challenge then challenges.close(id, head, target, challenge.opened) end
      -- Clears the flag even if the challenges can no longer be read: a ready job has no callback, and begins anew.
      flags = flags - layout.FLAG.has_challenge
    end
    -- Overwrites the fields from the state to the start.
    redis.call('SETRANGE', key, layout.state.offset, string.char(target, flags)
      .. string.sub(head, layout.cause.at, layout.cause.last)
      .. struct.pack('>I4I4I2I2i8i8', goes_on and attempt or attempt - 1, failures, losses,
        math.min(offers + 1, 65535), 0, 0))
    -- Token and worker go with the offer.
    redis.call('SETRANGE', key, layout.token.offset, layout.NO_ID .. layout.NO_ID)
    if goes_on then
      challenges.offer(id, challenges.queue_of(head), 0)
    else
      local lane, own = lanes.home_of(head)
      lanes.free(lane, own, id)
      lanes.add(lane, record.priority_of(head), id)
      lanes.count(lane, own, 0, 1)
    end
    ids[#ids + 1] = id
    tokens[#tokens + 1] = token_bytes
    returned[#returned + 1] = 1
  else
    returned[#returned + 1] = 0
  end
end
lists.call('ZREM', running_key, ids)
lists.call('SREM', claims_key, ids)
-- A job that never started does not count against a rate.
lane_writes.write(tokens)
if wake_channel ~= '' and #ids > 0 then
  redis.call('PUBLISH', wake_channel, 'freed:' .. worker_id .. ':' .. #ids)
  redis.call('PUBLISH', wake_channel, 'ready')
end
return {'ok', returned}
