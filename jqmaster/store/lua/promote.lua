#!lua flags=allow-oom
-- Makes jobs ready whose time has come, at most `limit` a call, and tells when the next one is due.
-- KEYS epoch:string waiting:zset names:set damaged:set
-- ARGV now_ms epoch limit from_state job_prefix ready_prefix
-- REPLY ok:promoted,ms until the next is due (-1: none) | stale_epoch
-- CHECKS FIRST epoch, then the state of each
-- include lib/time.lua
-- include lib/record.lua
-- include lib/epoch.lua
local epoch_key, waiting_key, names_key, damaged_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local now_ms, epoch, limit, from_state = time_ms(ARGV[1]), ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local job_prefix, ready_prefix = ARGV[5], ARGV[6]

if not leads(epoch_key, epoch) then return {'stale_epoch'} end
local due = redis.call('ZRANGEBYSCORE', waiting_key, '-inf', now_ms, 'LIMIT', 0, limit)
local promoted, lanes, names, damaged = 0, {}, {}, {}
for _, id in ipairs(due) do
  local head = head_of(job_prefix .. id)
  if string.byte(head, 2) ~= from_state then
    damaged[#damaged + 1] = id
  else
    local name = name_of(head)
    if not lanes[name] then
      lanes[name] = {}
      names[#names + 1] = name
    end
    local lane = lanes[name]
    lane[#lane + 1] = struct.unpack('>i4', head, 89)
    lane[#lane + 1] = id
  end
end
for _, name in ipairs(names) do
  local lane = lanes[name]
  for i = 2, #lane, 2 do
    redis.call('SETRANGE', job_prefix .. lane[i], 1, string.char(STATE.ready))
    promoted = promoted + 1
  end
  add_all(ready_prefix .. name, lane)
end
each('ZREM', waiting_key, due)
each('SADD', names_key, names)
each('SADD', damaged_key, damaged)
local next_due = redis.call('ZRANGE', waiting_key, 0, 0, 'WITHSCORES')
return {'ok', promoted, next_due[2] and math.max(0, tonumber(next_due[2]) - now_ms) or -1}
