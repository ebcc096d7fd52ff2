#!lua flags=allow-oom
-- Makes jobs ready whose time has come, at most `limit` a call, and tells when the next one is due.
-- KEYS epoch:string waiting:zset damaged:set
-- ARGV now_ms tag epoch limit from_state
-- REPLY ok:promoted,ms until the next is due (-1: none) | stale_epoch
-- CHECKS FIRST epoch, then the state of each
-- include lib/time.lua
-- include lib/record.lua
-- include lib/epoch.lua
-- include lib/lanes.lua
local epoch_key, waiting_key, damaged_key = KEYS[1], KEYS[2], KEYS[3]
local now_ms, epoch, limit, from_state = time_ms(ARGV[1]), ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
tag = ARGV[2]

if not leads(epoch_key, epoch) then return {'stale_epoch'} end
local due = redis.call('ZRANGEBYSCORE', waiting_key, '-inf', now_ms, 'LIMIT', 0, limit)
local promoted, damaged = 0, {}
for _, id in ipairs(due) do
  local key = tag .. 'job:' .. id
  local head = head_of(key)
  if string.byte(head, 2) ~= from_state then
    damaged[#damaged + 1] = id
    local lane, own = home_of_damaged(key)
    if lane then lane_counts(lane, own, -1, -1) end
  else
    redis.call('SETRANGE', key, 1, string.char(STATE.ready))
    lane_add(lane_of(head), struct.unpack('>i4', head, 89), id)
    promoted = promoted + 1
  end
end
each('ZREM', waiting_key, due)
write_lanes(nil)
each('SADD', damaged_key, damaged)
local next_due = redis.call('ZRANGE', waiting_key, 0, 0, 'WITHSCORES')
return {'ok', promoted, next_due[2] and math.max(0, tonumber(next_due[2]) - now_ms) or -1}
