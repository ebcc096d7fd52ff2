#!lua flags=allow-oom
-- Skips waiting jobs that have passed their `expires_at`, at most `limit` a call.
-- KEYS epoch:string expiring:zset skipped:zset
-- ARGV now_ms tag epoch limit finished_channel
-- REPLY ok:number of skipped jobs,ms until the next job expires (-1: none),[name](of each skipped job) | stale_epoch
-- CHECKS FIRST that the epoch is current, then the state of each job
-- include lib/clock.lua
-- include lib/leadership.lua
-- include lib/jobs/record.lua
-- include lib/lists.lua
-- include lib/lanes/lanes.lua
-- include lib/lanes/lane_writes.lua
-- include lib/lanes/lane_changes.lua
-- include lib/jobs/followed.lua
-- include lib/jobs/expiry.lua
local epoch_key, expiring_key, skipped_key = KEYS[1], KEYS[2], KEYS[3]
local now_ms, epoch, limit, finished_channel = clock.now_ms(ARGV[1]), ARGV[3], tonumber(ARGV[4]), ARGV[5]
local tag = ARGV[2]

if not leadership.holds(epoch_key, epoch) then return {'stale_epoch'} end
local due = redis.call('ZRANGEBYSCORE', expiring_key, '-inf', now_ms, 'LIMIT', 0, limit)
local is_waiting = layout.is_waiting
local skipped, watched, running, names = 0, {}, {}, {}
for _, id in ipairs(due) do
  local key = tag .. 'job:' .. id
  local head = record.read_head(key)
  local state = record.state_of(head)
  if is_waiting[state] then
    local lane, own = lanes.home_of(head)
    lane_changes.remove(id, state, lane, own)
    lanes.count(lane, own, -1, -1)
    followed.moved(key, head, layout.STATE.skipped, now_ms)
    record.set_ended(key, layout.STATE.skipped, record.flags_of(head), layout.CAUSE.expired, now_ms)
    redis.call('ZADD', skipped_key, now_ms, id)
    if record.has_flag(record.flags_of(head), layout.FLAG.watched) then watched[#watched + 1] = id end
    skipped = skipped + 1
    names[skipped] = record.name_of(head)
  elseif state == layout.STATE.running or state == layout.STATE.awaiting_callback then
    -- Check a running job again later, because it may return to its queue.
    running[#running + 1] = now_ms + expiry.RECHECK_MS
    running[#running + 1] = id
  end
end
lists.call('ZREM', expiring_key, due)
lists.zadd(expiring_key, running)
lane_writes.write(nil)
followed.write(now_ms)
if #watched > 0 then redis.call('PUBLISH', finished_channel, table.concat(watched, ',')) end
local next_due = redis.call('ZRANGE', expiring_key, 0, 0, 'WITHSCORES')
return {'ok', skipped, next_due[2] and math.max(0, tonumber(next_due[2]) - now_ms) or -1, names}
