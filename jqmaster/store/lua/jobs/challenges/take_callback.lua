#!lua
-- Stores a callback of an open challenge, even if the attempt has not reported yet that it waits. After the last
-- expected callback, a worker may run the job with all its callbacks.
-- KEYS job:string challenges:string
-- ARGV now_ms tag job_id
--   digest(of the request ID)
--   identity(the same for all repeats of one callback)
--   body_digest content_type body
--   wake_channel(empty: wake nobody)
--   is_verified(1: the signature is valid, or the callback answers the form)
--   answer(of a person, as MessagePack; empty: none)
-- REPLY taken:name,ms since the challenge was opened,1 if a worker may run the job now
--   | repeated:name | conflict:name | over:name
--   | unverified:header,secret,prefix,encoding(of the expected signature)
--   | form | unknown
-- CHECKS FIRST that the challenge exists;
--   that the signature is valid, if one is required;
--   whether this callback came before;
--   that the attempt is not over
-- include lib/clock.lua
-- include lib/jobs/record.lua
-- include lib/challenges/challenges.lua
local job_key, challenges_key = KEYS[1], KEYS[2]
local now_ms, id, digest, identity, body_digest = clock.now_ms(ARGV[1]), ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local tag = ARGV[2]
local content_type, body, wake_channel, is_verified, answer = ARGV[7], ARGV[8], ARGV[9], ARGV[10], ARGV[11]

local head = record.read_head(job_key)
if head == '' then return {'unknown'} end
local list, found = challenges.read(id), nil
for _, challenge in ipairs(list) do
  if challenge.digest == digest then found = challenge end
end
if not found then return {'unknown'} end
if found.sign and is_verified ~= '1' then return {'unverified', unpack(found.sign)} end
if found.form and is_verified ~= '1' then return {'form'} end
local name = record.name_of(head)
if found.state == challenges.OPEN or found.state == challenges.SUCCEEDED or found.state == challenges.FAILED then
  for _, one in ipairs(found.taken or {}) do
    if one[1] == identity then
      if one[2] ~= body_digest then return {'conflict', name} end
      -- Write again on a repeated call. WAIT covers only writes of its own connection, and the write of the first call
      -- may never have reached the replicas.
      record.write_again(job_key, head)
      return {'repeated', name}
    end
  end
  if challenges.is_answered(found) then return {'conflict', name} end
end
local state = record.state_of(head)
local is_live = challenges.open_one(id, head) and found == list[#list] and found.state == challenges.OPEN
  and (state == layout.STATE.running or state == layout.STATE.awaiting_callback)
if not is_live then return {'over', name} end
found.taken = found.taken or {}
found.taken[#found.taken + 1] = {identity, body_digest, now_ms, content_type, body}
if answer ~= '' then
  found.answers = found.answers or {}
  found.answers[#found.answers + 1] = answer
end
if found.remind and challenges.is_answered(found) then redis.call('ZREM', tag .. 'reminders', id) end
redis.call('SET', challenges_key, cmsgpack.pack(list))
local may_run = challenges.is_answered(found) and state == layout.STATE.awaiting_callback
if may_run then
  record.set_int64(job_key, layout.due_at_ms.offset, 0)
  challenges.offer(id, head, found, now_ms)
  if wake_channel ~= '' then redis.call('PUBLISH', wake_channel, 'ready') end
end
return {'taken', name, math.max(0, now_ms - found.opened), may_run and 1 or 0}
