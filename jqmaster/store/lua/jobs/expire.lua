#!lua flags=allow-oom
-- Skips waiting jobs whose expires_at has passed, at most `limit` a call.
-- KEYS epoch:string expiring:zset scheduled:zset retrying:zset skipped:zset
-- ARGV now_ms tag epoch limit finished_channel
-- REPLY ok:skipped,ms until the next expires (-1: none),[name](of each that was skipped) | stale_epoch
-- CHECKS FIRST epoch, then the state of each
-- include lib/time.lua
-- include lib/record.lua
-- include lib/epoch.lua
-- include lib/lanes.lua
local epoch_key, expiring_key, scheduled_key, retrying_key, skipped_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local now_ms, epoch, limit, finished_channel = time_ms(ARGV[1]), ARGV[3], tonumber(ARGV[4]), ARGV[5]
tag = ARGV[2]

if not leads(epoch_key, epoch) then return {'stale_epoch'} end
local due = redis.call('ZRANGEBYSCORE', expiring_key, '-inf', now_ms, 'LIMIT', 0, limit)
local RECHECK_MS = 60000
local skipped, watched, running, names = 0, {}, {}, {}
for _, id in ipairs(due) do
  local key = tag .. 'job:' .. id
  local head = head_of(key)
  local state = string.byte(head, 2)
  if state == STATE.scheduled or state == STATE.ready or state == STATE.retrying then
    local lane, own = home_of(head)
    if state == STATE.ready then lane_remove(lane, id) else redis.call('ZREM', state == STATE.scheduled and scheduled_key or retrying_key, id) end
    lane_counts(lane, own, -1, -1)
    redis.call('SETRANGE', key, 1, string.char(STATE.skipped, string.byte(head, 3), 4))
    redis.call('SETRANGE', key, 32, struct.pack('>i8', now_ms))
    redis.call('ZADD', skipped_key, now_ms, id)
    if has_flag(string.byte(head, 3), FLAG_WATCHED) then watched[#watched + 1] = id end
    skipped = skipped + 1
    names[skipped] = name_of(head)
  elseif state == STATE.running then
    -- It may come back to wait: looked at again later.
    running[#running + 1] = now_ms + RECHECK_MS
    running[#running + 1] = id
  end
end
each('ZREM', expiring_key, due)
add_all(expiring_key, running)
write_lanes(nil)
if #watched > 0 then redis.call('PUBLISH', finished_channel, table.concat(watched, ',')) end
local next_due = redis.call('ZRANGE', expiring_key, 0, 0, 'WITHSCORES')
return {'ok', skipped, next_due[2] and math.max(0, tonumber(next_due[2]) - now_ms) or -1, names}
