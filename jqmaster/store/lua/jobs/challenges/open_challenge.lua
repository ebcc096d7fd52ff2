#!lua
-- Opens a challenge for a running attempt. An earlier challenge of the attempt becomes void. A repeat of the call
-- changes nothing, even if it comes late.
-- KEYS job:string challenged:zset worker:hash
-- ARGV now_ms tag worker_id_bytes job_id token_bytes
--   shown(start of the request ID)
--   digest(of the request ID)
--   wait_ms
--   expect(number of callbacks)
--   meta(empty: none)
--   sign_header(empty: callbacks are not signed)
--   sign_secret sign_lead sign_encoding
--   form(MessagePack; empty: none)
--   audience(who may answer the form)
--   link(the request ID if people are to be notified, otherwise empty)
--   remind_ms(when to remind people; empty: never)
-- REPLY ok:name,now_ms,1 if the challenge is new | stale | answered | unknown
-- CHECKS FIRST that the job is running under this token at this worker;
--   whether this call is a repeat;
--   that the callbacks of the present challenge have not arrived;
--   that the worker is registered
-- include lib/clock.lua
-- include lib/jobs/record.lua
-- include lib/challenges/challenges.lua
local job_key, challenged_key, worker_key = KEYS[1], KEYS[2], KEYS[3]
local now_ms, worker_id_bytes, id, token_bytes = clock.now_ms(ARGV[1]), ARGV[3], ARGV[4], ARGV[5]
local tag, shown, digest = ARGV[2], ARGV[6], ARGV[7]
local wait_ms, expect, meta = tonumber(ARGV[8]), tonumber(ARGV[9]), ARGV[10]
local sign_header, sign_secret, sign_lead, sign_encoding = ARGV[11], ARGV[12], ARGV[13], ARGV[14]
local form, audience, link, remind_ms = ARGV[15], ARGV[16], ARGV[17], tonumber(ARGV[18])

local head = record.read_head(job_key)
if not record.is_held_by(head, token_bytes, worker_id_bytes) then
  if redis.call('EXISTS', worker_key) == 0 then return {'unknown'} end
  return {'stale'}
end
local before, list = challenges.open_one(id, head)
list = list or challenges.read(id)
for _, challenge in ipairs(list) do
  if challenge.digest == digest then
    -- Write again on a repeated call. WAIT covers only writes of its own connection, and the write of the first call
    -- may never have reached the replicas.
    record.write_again(job_key, head)
    return {'ok', record.name_of(head), now_ms, 0}
  end
end
if before and (before.since or challenges.is_answered(before)) then return {'answered'} end
if before then before.state, before.ended, before.sign, before.link = challenges.VOID, now_ms, nil, nil end
list[#list + 1] = {id = shown, digest = digest, attempt = (record.attempts_of(head)), state = challenges.OPEN,
  opened = now_ms, wait = wait_ms, expect = expect > 1 and expect or nil, meta = meta ~= '' and meta or nil,
  sign = sign_header ~= '' and {sign_header, sign_secret, sign_lead, sign_encoding} or nil}
if form ~= '' then
  local opened = list[#list]
  opened.form, opened.audience, opened.link, opened.remind = form, audience, link, remind_ms
end
challenges.write(id, list)
redis.call('ZADD', challenged_key, now_ms, id)
local flags = record.flags_of(head)
if not record.has_flag(flags, layout.FLAG.has_challenge) then
  record.set_flags(job_key, flags + layout.FLAG.has_challenge)
end
-- Reset the count of not-ready reports, because the work has begun.
if record.has_flag(flags, layout.FLAG.has_progress) then
  redis.pcall('HDEL', tag .. 'progress:' .. id, 'not_ready_since_ms', 'not_ready_times')
end
return {'ok', record.name_of(head), now_ms, 1}
