#!lua flags=allow-oom
-- Claims a suspect for a worker that holds no other job. A suspect is a job whose earlier workers were lost.
-- KEYS epoch:string worker:hash claims:set running:zset retrying:zset suspects:set fence:string rules:hash mail:string
-- ARGV now_ms epoch edition worker_id_bytes job_id token_bytes
--   lease_ms offer_ms(time to accept an offer)
--   grace_ms(time after the timeout until a claim is reclaimed)
--   tag worker_id
--   mail_channel(empty: the caller itself holds the worker's poll)
-- REPLY ok:now_ms,fence,record | stale_epoch | stale_constraints | gone | no_poll | busy | over | closed
-- CHECKS FIRST that the epoch is current;
--   that the edition of the constraints is current;
--   that the worker exists and takes jobs (gone);
--   that the worker holds no job (busy);
--   that the worker has an open poll, if it pulls (no_poll);
--   that the job still waits as a suspect (over);
--   that the lane has the current edition, and each gate of the job is open (closed)
-- include lib/clock.lua
-- include lib/leadership.lua
-- include lib/jobs/record.lua
-- include lib/constraints/gates.lua
-- include lib/constraints/passing.lua
-- include lib/constraints/weights.lua
-- include lib/lanes/lanes.lua
-- include lib/lanes/lane_writes.lua
-- include lib/jobs/mail.lua
local epoch_key, worker_key, claims_key, running_key, retrying_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local suspects_key, fence_key, rules_key, mail_key = KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local now_ms, epoch, edition, worker_id_bytes, id = clock.now_ms(ARGV[1]), ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local token_bytes = ARGV[6]
local lease_ms, offer_ms, grace_ms = tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9])
local tag = ARGV[10]
local worker_id, mail_channel = ARGV[11], ARGV[12]

if not leadership.holds(epoch_key, epoch) then return {'stale_epoch'} end
local facts = redis.call('HMGET', rules_key, 'edition', 'settled')
if (facts[1] or '0') ~= edition or (facts[2] or '0') ~= edition then return {'stale_constraints'} end
local worker = redis.call('HMGET', worker_key, 'max_jobs', 'is_draining', 'is_detached', 'url', 'poll_until_ms')
if not worker[1] or worker[2] == '1' or worker[3] == '1' then return {'gone'} end
if redis.call('EXISTS', claims_key) == 1 then return {'busy'} end
if worker[4] == '' and tonumber(worker[5] or 0) <= now_ms then return {'no_poll'} end
local key = tag .. 'job:' .. id
local head = record.read_head(key)
if record.state_of(head) ~= layout.STATE.retrying or redis.call('SISMEMBER', suspects_key, id) == 0
  or not redis.call('ZSCORE', retrying_key, id) then return {'over'} end
local expires_at_ms = record.int64(head, layout.expires_at_ms.at)
if expires_at_ms > 0 and expires_at_ms <= now_ms then return {'over'} end
local lane, own = lanes.home_of(head)
-- If the lane has an older edition, the leader is still matching its jobs to the constraints.
if lane.edition ~= tonumber(edition) then return {'closed'} end
local keyed = own or lane.keyed
local closed_by = gates.first_closed(lane.shared, now_ms) or gates.first_closed(keyed, now_ms)
local whole = redis.call('GET', key)
local has_gates = #lane.shared + #keyed > 0
local found = has_gates and weights.of_extras(record.extras_of(key, head))
local weighted = has_gates and weights.among(keyed, now_ms, weights.among(lane.shared, now_ms))
local place = {id = id, score = record.priority_of(head), order = id .. lane.id}
-- A closed gate keeps room for a suspect as it does for jobs in lanes.
if closed_by and closed_by.weight_default then weights.keep_at_closed(closed_by, found, place) end
if closed_by or weighted and weights.first_too_small(weighted, found, place) then return {'closed'} end

local flags = record.flags_of(head)
if record.has_flag(flags, layout.FLAG.confirmed) then flags = flags - layout.FLAG.confirmed end
local fence = math.max(tonumber(redis.call('GET', fence_key) or '0') + 1, now_ms)
redis.call('SET', fence_key, string.format('%.0f', fence))
local attempt, failures, losses, returned = record.attempts_of(head)
-- Overwrite the record from `state` to `worker_id`.
redis.call('SETRANGE', key, layout.state.offset, string.char(layout.STATE.running, flags, layout.CAUSE.none)
  .. struct.pack('>I4I4I2I2i8i8i8i8i8', attempt + 1, failures, losses, returned, 0, now_ms, 0, now_ms + offer_ms, fence)
  .. token_bytes .. worker_id_bytes)
local deadline_ms = now_ms + offer_ms + record.int64(head, layout.timeout_ms.at) + grace_ms
redis.call('ZADD', running_key, math.min(now_ms + lease_ms, deadline_ms), id)
redis.call('SADD', claims_key, id)
redis.call('ZREM', retrying_key, id)
redis.call('SREM', suspects_key, id)
redis.call('HSET', worker_key, 'alone_with', id)
if worker[4] == '' then
  mail.give(worker_key, mail_key, {id, token_bytes}, offer_ms, mail_channel, 'mail:' .. worker_id)
end
lanes.count(lane, own, 0, -1)
for _, ids in ipairs({lane.shared, keyed}) do
  if weighted then passing.charge(ids, found, id, token_bytes, now_ms, now_ms) end
  passing.pass(ids, {id, token_bytes}, {now_ms, token_bytes}, now_ms)
end
if weighted then passing.write(now_ms) end
lane_writes.write(nil)
return {'ok', now_ms, fence, whole}
