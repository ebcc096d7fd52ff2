#!lua flags=allow-oom
-- Makes running attempts wait for the callbacks of their challenges, if the caller holds their tokens. The attempts
-- keep their slots. Constraints with `counts_awaiting: false` do not count them. If the callbacks of a job have already
-- arrived, a worker may run the job at once.
-- KEYS running:zset awaiting:zset worker:hash
-- ARGV now_ms tag worker_id_bytes
--   wake_channel(empty: wake nobody)
--   [+ id token_bytes digest(of the challenge's request ID)]
-- REPLY ok:
--     [1: accepted, 0: stale, 2: no such challenge is open],
--     [name](of each job whose callbacks have arrived)
--   | unknown
-- CHECKS FIRST that each job is running under its token at this worker, and has this challenge open;
--   if no job is, that the worker is registered
-- include lib/clock.lua
-- include lib/jobs/record.lua
-- include lib/lists.lua
-- include lib/lanes/lanes.lua
-- include lib/challenges/challenges.lua
-- include lib/constraints/slots.lua
-- include lib/lanes/parking.lua
local running_key, awaiting_key, worker_key = KEYS[1], KEYS[2], KEYS[3]
local now_ms, tag, worker_id_bytes, wake_channel = clock.now_ms(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]
local FIRST, WIDTH = 5, 3

local worker_id = record.uuid_text(worker_id_bytes)
local accepted, ended, answered, known = {}, {}, {}, 0
local freed = {}
for i = FIRST, #ARGV, WIDTH do
  local id, token_bytes, digest = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local job_key = tag .. 'job:' .. id
  local head = record.read_head(job_key)
  local word = 0
  if record.is_held_by(head, token_bytes, worker_id_bytes) then
    local challenge, list = challenges.open_one(id, head)
    if challenge and challenge.digest == digest and not challenge.since then
      local flags = record.flags_of(head)
      if record.has_flag(flags, layout.FLAG.confirmed) then flags = flags - layout.FLAG.confirmed end
      local is_answered = challenges.is_answered(challenge)
      challenge.since, challenge.due = now_ms, now_ms + challenge.wait
      challenges.write(id, list)
      redis.call('SETRANGE', job_key, layout.state.offset,
        string.char(layout.STATE.awaiting_callback, flags, layout.CAUSE.none))
      record.set_int64(job_key, layout.due_at_ms.offset, is_answered and 0 or challenge.due)
      if is_answered then
        answered[#answered + 1] = record.name_of(head)
        challenges.offer(id, head, challenge, now_ms)
      else
        redis.call('ZADD', awaiting_key, challenge.due, id)
        if challenge.remind then redis.call('ZADD', tag .. 'reminders', now_ms + challenge.remind, id) end
      end
      local lane, own = lanes.home_of(head)
      local gate_lists = {table.concat(lane.shared)}
      for _, gate_id in ipairs(own or lane.keyed) do gate_lists[#gate_lists + 1] = gate_id end
      for _, gate_id in ipairs(slots.hand_over(gate_lists, id)) do freed[#freed + 1] = gate_id end
      ended[#ended + 1] = id
      word = 1
    else
      word = 2
    end
    known = known + 1
  elseif record.is_claim_of(head, token_bytes, worker_id_bytes)
    and record.state_of(head) == layout.STATE.awaiting_callback then
    word, known = 1, known + 1
    record.write_again(job_key, head)
  end
  accepted[#accepted + 1] = word
end
if known == 0 and redis.call('EXISTS', worker_key) == 0 then return {'unknown'} end
lists.call('ZREM', running_key, ended)
lists.call('SREM', tag .. 'claims:' .. worker_id, ended)
local has_opened = parking.open_all(parking.closed_among(freed))
if wake_channel ~= '' and #ended > 0 then
  redis.call('PUBLISH', wake_channel, 'freed:' .. worker_id .. ':' .. #ended)
  redis.call('PUBLISH', wake_channel, 'due')
  if #answered > 0 or has_opened then redis.call('PUBLISH', wake_channel, 'ready') end
end
return {'ok', accepted, answered}
