#!lua flags=allow-oom
-- Registers a worker. A former worker at the same address gets no more jobs. If the former worker's process is known to
-- have ended, its claims end at once. Otherwise they end with their leases.
-- KEYS worker:hash workers:zset worker_urls:hash epoch:string running:zset slot_rules:hash
-- ARGV now_ms worker_id
--   url(empty: it pulls)
--   worker_prefix claims_prefix
--   wake_channel(empty: wake nobody)
--   until_ms(time at which the caller stops waiting)
--   rule_id(ID of the slot rule for its node and labels)
--   former(worker that was registered at the address before the caller verified the address; empty: none)
--   max_workers(empty: any number)
--   stale_ms
--   reserved(prefix of the owners of the masters' own workers, which do not count as workers)
--   [+ field value]
-- REPLY ok:now_ms,epoch,former(worker whose claims end now; empty: none)
--   | late | full
-- CHECKS FIRST that the caller still waits (late);
--   that no worker has registered at the address since the caller read `former` (late), because a delayed call could
--       replace a living worker;
--   that fewer than max_workers workers have sent a heartbeat within stale_ms (full)
-- include lib/clock.lua
local worker_key, workers_key, urls_key, epoch_key, running_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local slot_rules_key = KEYS[6]
local now_ms, worker_id, url, worker_prefix, claims_prefix = clock.now_ms(ARGV[1]), ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local wake_channel = ARGV[6]
local until_ms, rule_id, former = tonumber(ARGV[7]), ARGV[8], ARGV[9]
local max_workers, stale_ms, reserved = tonumber(ARGV[10]), tonumber(ARGV[11]), ARGV[12]
local FIRST = 13

if now_ms > until_ms then return {'late'} end
local replaced = url ~= '' and redis.call('HGET', urls_key, url) or false
if url ~= '' and (replaced or '') ~= former then return {'late'} end
-- Examine workers one by one only if there may be too many.
if max_workers and redis.call('ZCOUNT', workers_key, now_ms - stale_ms, '+inf') >= max_workers then
  local counted = 0
  for _, id in ipairs(redis.call('ZRANGE', workers_key, now_ms - stale_ms, '+inf', 'BYSCORE')) do
    local facts = redis.call('HMGET', worker_prefix .. id, 'is_detached', 'owner')
    local is_own = string.sub(facts[2] or '', 1, #reserved) == reserved
    if id ~= replaced and id ~= worker_id and facts[1] ~= '1' and not is_own then counted = counted + 1 end
  end
  if counted >= max_workers then return {'full'} end
end
redis.call('HSET', worker_key, 'registered_at_ms', now_ms, 'is_draining', 0, 'is_detached', 0, unpack(ARGV, FIRST))
local kept = redis.call('HGET', slot_rules_key, rule_id)
if kept then
  local most = string.match(kept, '^%d+')
  redis.call('HSET', worker_key, 'max_jobs', most, 'ordered_max_jobs', most)
end
redis.call('ZADD', workers_key, now_ms, worker_id)
if url ~= '' then redis.call('HSET', urls_key, url, worker_id) end
local freed = ''
if replaced and replaced ~= worker_id and redis.call('EXISTS', worker_prefix .. replaced) == 1 then
  local former_key = worker_prefix .. replaced
  redis.call('HSET', former_key, 'is_detached', 1, 'detached_by', 'successor')
  -- If the workers run in different places, the address may have moved. The former worker may still be alive, and may
  -- run its jobs until their leases end.
  local place = redis.call('HGET', worker_key, 'place') or ''
  if place ~= '' and redis.call('HGET', former_key, 'place') == place then freed = replaced end
end
if freed ~= '' then
  redis.call('HSET', worker_prefix .. freed, 'is_gone', 1)
  -- The process of the former worker has ended. End its leases now, so that the leader reclaims its jobs. Write them in
  -- chunks, because the worker may have 1,000 slots, which one command cannot take.
  local ends = {}
  for _, id in ipairs(redis.call('SMEMBERS', claims_prefix .. freed)) do
    ends[#ends + 1] = now_ms
    ends[#ends + 1] = id
  end
  for at = 1, #ends, 500 do redis.call('ZADD', running_key, 'XX', 'LT', unpack(ends, at, math.min(at + 499, #ends))) end
end
if wake_channel ~= '' then redis.call('PUBLISH', wake_channel, 'workers') end
return {'ok', now_ms, redis.call('GET', epoch_key) or '', freed}
