#!lua flags=allow-oom
-- Makes due jobs ready, at most `limit` a call. Returns the time until the next job is due.
-- KEYS epoch:string waiting:zset damaged:set
-- ARGV now_ms tag epoch limit from_state
-- REPLY ok:number of promoted jobs,ms until the next job is due (-1: none) | stale_epoch
-- CHECKS FIRST that the epoch is current, then the state of each job
-- include lib/clock.lua
-- include lib/leadership.lua
-- include lib/jobs/record.lua
-- include lib/lists.lua
-- include lib/lanes/lanes.lua
-- include lib/lanes/lane_writes.lua
local epoch_key, waiting_key, damaged_key = KEYS[1], KEYS[2], KEYS[3]
local now_ms, epoch, limit, from_state = clock.now_ms(ARGV[1]), ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local tag = ARGV[2]

if not leadership.holds(epoch_key, epoch) then return {'stale_epoch'} end
local due = redis.call('ZRANGEBYSCORE', waiting_key, '-inf', now_ms, 'LIMIT', 0, limit)
local promoted, damaged = 0, {}
for _, id in ipairs(due) do
  local key = tag .. 'job:' .. id
  local head = record.read_head(key)
  if record.state_of(head) ~= from_state then
    damaged[#damaged + 1] = id
    local lane, own = lanes.home_of_damaged(key)
    if lane then lanes.count(lane, own, -1, -1) end
  else
    record.set_state(key, layout.STATE.ready)
    lanes.add(lanes.of(head), record.priority_of(head), id)
    promoted = promoted + 1
  end
end
lists.call('ZREM', waiting_key, due)
lane_writes.write(nil)
lists.call('SADD', damaged_key, damaged)
local next_due = redis.call('ZRANGE', waiting_key, 0, 0, 'WITHSCORES')
return {'ok', promoted, next_due[2] and math.max(0, tonumber(next_due[2]) - now_ms) or -1}
