#!lua flags=allow-oom
-- Removes expired results, at most `limit` a call. If dependents need a result, or would need it if they ran again,
-- keeps it and checks it again later.
-- KEYS epoch:string results:zset
-- ARGV now_ms epoch limit tag
-- REPLY ok:number of removed results,number of checked results that were kept | stale_epoch
-- CHECKS FIRST that the epoch is current
-- include lib/clock.lua
-- include lib/lists.lua
-- include lib/leadership.lua
-- include lib/jobs/dependents.lua
local epoch_key, results_key = KEYS[1], KEYS[2]
local now_ms, epoch, limit, tag = clock.now_ms(ARGV[1]), ARGV[2], tonumber(ARGV[3]), ARGV[4]

if not leadership.holds(epoch_key, epoch) then return {'stale_epoch'} end
local old = redis.call('ZRANGEBYSCORE', results_key, '-inf', now_ms, 'LIMIT', 0, limit)
local AGAIN_MS = 600000
local garbage, removed, kept = {}, {}, {}
local has_awaited = redis.call('EXISTS', tag .. 'awaited') == 1
for _, id in ipairs(old) do
  if has_awaited and dependents.is_awaited(id) and dependents.need_of(id, dependents.state_of(id)) then
    lists.add_pair(kept, string.format('%.0f', now_ms + AGAIN_MS), id)
  else
    removed[#removed + 1] = id
    garbage[#garbage + 1] = tag .. 'result:' .. id
  end
end
lists.call('ZREM', results_key, removed)
lists.zadd(results_key, kept)
if #garbage > 0 then redis.call('UNLINK', unpack(garbage)) end
return {'ok', #removed, #kept / 2}
