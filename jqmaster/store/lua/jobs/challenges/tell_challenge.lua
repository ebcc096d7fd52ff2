#!lua
-- Stores the progress of an open challenge, as the outside system reports it. The progress is shown to people.
-- KEYS job:string challenges:string
-- ARGV now_ms tag job_id digest(of the request ID) fraction(empty: unknown) message
-- REPLY ok | over | unknown
-- CHECKS FIRST that the challenge exists, and that its attempt is not over
-- include lib/clock.lua
-- include lib/jobs/record.lua
-- include lib/challenges/challenges.lua
local job_key, challenges_key = KEYS[1], KEYS[2]
local now_ms, id, digest, fraction, message = clock.now_ms(ARGV[1]), ARGV[3], ARGV[4], ARGV[5], ARGV[6]

local head = record.read_head(job_key)
if head == '' then return {'unknown'} end
local is_known = false
for _, challenge in ipairs(challenges.read(id)) do is_known = is_known or challenge.digest == digest end
if not is_known then return {'unknown'} end
local challenge, list = challenges.open_one(id, head)
local state = record.state_of(head)
if not challenge or challenge.digest ~= digest
  or state ~= layout.STATE.running and state ~= layout.STATE.awaiting_callback then return {'over'} end
challenge.fraction, challenge.note, challenge.told = fraction ~= '' and fraction or nil, message, now_ms
redis.call('SET', challenges_key, cmsgpack.pack(list))
return {'ok'}
