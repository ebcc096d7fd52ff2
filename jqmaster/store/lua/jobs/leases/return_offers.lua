#!lua flags=allow-oom
-- Undoes claims of jobs that never started, because the worker refused them or could not be reached. Skips a job if
-- another job has taken its uniqueness key meanwhile, because that other job runs instead.
-- KEYS epoch:string running:zset claims:set skipped:zset
-- ARGV now_ms tag
--   epoch(empty: the worker itself returns the jobs)
--   worker_id worker_id_bytes
--   wake_channel(empty: wake nobody)
--   finished_channel
--   [+ id token_bytes]
-- REPLY ok:
--     [1: returned, 0: no longer held by this claim],
--     [name](of each skipped job)
--   | stale_epoch
-- CHECKS FIRST that the epoch is current; that each job is running under its token at this worker
-- include lib/clock.lua
-- include lib/leadership.lua
-- include lib/jobs/record.lua
-- include lib/lists.lua
-- include lib/lanes/lanes.lua
-- include lib/lanes/lane_writes.lua
-- include lib/challenges/challenges.lua
-- include lib/jobs/followed.lua
-- include lib/jobs/uniqueness.lua
local epoch_key, running_key, claims_key, skipped_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local now_ms, epoch, worker_id, worker_id_bytes = clock.now_ms(ARGV[1]), ARGV[3], ARGV[4], ARGV[5]
local wake_channel, finished_channel = ARGV[6], ARGV[7]
local tag = ARGV[2]
local FIRST, WIDTH = 8, 2
-- The minimum and the maximum delay before a job with callbacks is offered again.
local MIN_PUT_OFF_MS, MAX_PUT_OFF_MS = 1000, 60000

if epoch ~= '' and not leadership.holds(epoch_key, epoch) then return {'stale_epoch'} end
local returned, ids, tokens, names, watched = {}, {}, {}, {}, {}
-- Skips a job that has not started.
local function skip(key, head, flags, id, lane, own)
  followed.moved(key, head, layout.STATE.skipped, now_ms)
  record.set_ended(key, layout.STATE.skipped, flags, layout.CAUSE.superseded, now_ms)
  redis.call('ZADD', skipped_key, now_ms, id)
  lanes.count(lane, own, -1, 0)
  names[#names + 1] = record.name_of(head)
  if record.has_flag(flags, layout.FLAG.watched) then watched[#watched + 1] = id end
end

-- Returns when a job with callbacks is offered again; 0: at once. `offers`: how often the job was returned before.
--
-- After every second refusal, the job waits, each time twice as long. Otherwise one worker could refuse it again and
-- again, because jobs with callbacks come before the worker's other jobs. After the other refusals, the job is offered
-- at once. Another worker can take it, because the worker that refused gets no jobs for a moment.
local function next_offer_ms(offers)
  if epoch ~= '' or offers % 2 == 0 then return 0 end
  return now_ms + math.min(MIN_PUT_OFF_MS * 2 ^ ((offers - 1) / 2), MAX_PUT_OFF_MS)
end

for i = FIRST, #ARGV, WIDTH do
  local id, token_bytes = ARGV[i], ARGV[i + 1]
  local key = tag .. 'job:' .. id
  local head = record.read_head(key)
  if record.is_held_by(head, token_bytes, worker_id_bytes)
    and not record.has_flag(record.flags_of(head), layout.FLAG.confirmed) then
    local attempt, failures, losses, offers = record.attempts_of(head)
    local challenge = challenges.open_one(id, head)
    -- A job that was offered because of its callbacks waits for a worker again.
    local goes_on = challenge and challenges.is_answered(challenge)
    local flags, target = record.flags_of(head), goes_on and layout.STATE.awaiting_callback or layout.STATE.ready
    if not goes_on and record.has_flag(flags, layout.FLAG.has_challenge) then
      if challenge then challenges.close(id, head, target, challenge.opened) end
      -- Clear the flag even if the challenges cannot be read: a ready job begins a new attempt, which has no callbacks.
      flags = flags - layout.FLAG.has_challenge
    end
    -- Overwrite the record from `state` to `started_at_ms`.
    redis.call('SETRANGE', key, layout.state.offset, string.char(target, flags)
      .. string.sub(head, layout.cause.at, layout.cause.last)
      .. struct.pack('>I4I4I2I2i8i8', goes_on and attempt or attempt - 1, failures, losses,
        math.min(offers + 1, 65535), 0, 0))
    -- Clear the token and the worker of the claim.
    redis.call('SETRANGE', key, layout.token.offset, layout.NO_ID .. layout.NO_ID)
    if goes_on then
      challenges.offer(id, head, challenge, next_offer_ms(offers))
    else
      local lane, own = lanes.home_of(head)
      lanes.free(lane, own, id)
      if attempt == 1 and record.has_flag(flags, layout.FLAG.unique) and uniqueness.take_back(id, key, head) then
        skip(key, head, flags, id, lane, own)
      else
        lanes.add(lane, record.priority_of(head), id)
        lanes.count(lane, own, 0, 1)
      end
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
if #names > 0 then followed.write(now_ms) end
-- Pass the tokens, so that the starts of these jobs no longer count against rate limits.
lane_writes.write(tokens)
if #watched > 0 then redis.call('PUBLISH', finished_channel, table.concat(watched, ',')) end
if wake_channel ~= '' and #ids > 0 then
  redis.call('PUBLISH', wake_channel, 'freed:' .. worker_id .. ':' .. #ids)
  redis.call('PUBLISH', wake_channel, 'ready')
end
return {'ok', returned, names}
