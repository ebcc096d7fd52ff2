#!lua flags=allow-oom
-- Gives ready jobs to a worker: taken, leased, marked and counted in one step. Smallest priority first, oldest first within.
-- KEYS epoch:string worker:hash claims:set running:zset fence:string skipped:zset damaged:set [+ ready:zset]
-- ARGV now_ms epoch worker_id_bytes limit lease_ms offer_ms grace_ms job_prefix tokens(16 bytes each) finished_channel
-- REPLY ok:now_ms,busy,first_fence,passed_over(expired or damaged),is_exhausted(1: these lanes have no more),[id record] | stale_epoch | gone | full:busy
-- CHECKS FIRST epoch, worker, free slots, each record
-- include lib/time.lua
-- include lib/epoch.lua
-- include lib/record.lua
local epoch_key, worker_key, claims_key, running_key, fence_key, skipped_key, damaged_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local FIRST_LANE = 8
-- Bounds of one call: members read from the lanes, and bytes of records given out (after the first).
local MAX_READ, MAX_BYTES = 5000, 8 * 1024 * 1024
local now_ms, epoch, worker_id_bytes, limit = time_ms(ARGV[1]), ARGV[2], ARGV[3], tonumber(ARGV[4])
local lease_ms, offer_ms, grace_ms, job_prefix = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]), ARGV[8]
local tokens, finished_channel = ARGV[9], ARGV[10]

if not leads(epoch_key, epoch) then return {'stale_epoch'} end
local worker = redis.call('HMGET', worker_key, 'max_jobs', 'is_draining', 'is_detached')
if not worker[1] or worker[2] == '1' or worker[3] == '1' then return {'gone'} end
local busy = redis.call('SCARD', claims_key)
limit = math.min(limit, tonumber(worker[1]) - busy)
if limit <= 0 then return {'full', busy} end

-- Cut short anywhere before its argument, which is one byte at least.
local function is_whole(record)
  if type(record) ~= 'string' or #record < 130 then return false end
  local extras_at = 130 + string.byte(record, 129)
  return #record > extras_at + 3 and #record > extras_at + 3 + struct.unpack('>I4', record, extras_at)
end

-- The best of all lanes: the first `limit` of each, merged; of many lanes fewer at once, so that the script stays short.
limit = math.min(limit, math.max(1, math.floor(MAX_READ / (#KEYS - FIRST_LANE + 1))))
local best = {}
for lane = FIRST_LANE, #KEYS do
  local head = redis.call('ZRANGE', KEYS[lane], 0, limit - 1, 'WITHSCORES')
  for i = 1, #head, 2 do best[#best + 1] = {tonumber(head[i + 1]), head[i], lane} end
end
if #KEYS > FIRST_LANE then
  table.sort(best, function(a, b)
    if a[1] ~= b[1] then return a[1] < b[1] end
    return a[2] < b[2]
  end)
end

local is_exhausted = #best < limit and 1 or 0
local claimed, removed, expired, damaged, watched, bytes = {}, {}, {}, {}, {}, 0
for i = 1, math.min(limit, #best) do
  if bytes > MAX_BYTES then
    is_exhausted = 0
    break
  end
  local id, lane = best[i][2], best[i][3]
  local record = redis.pcall('GET', job_prefix .. id)
  removed[lane] = removed[lane] or {}
  table.insert(removed[lane], id)
  if not is_whole(record) or string.byte(record, 1) ~= 1 or string.byte(record, 2) ~= STATE.ready then
    damaged[#damaged + 1] = id
  else
    local expires_at_ms = int64(record, 113)
    if expires_at_ms > 0 and expires_at_ms <= now_ms then
      expired[#expired + 1] = id
      if has_flag(string.byte(record, 3), FLAG_WATCHED) then watched[#watched + 1] = id end
    else
      claimed[#claimed + 1] = id
      claimed[#claimed + 1] = record
      bytes = bytes + #record
    end
  end
end

for lane, ids in pairs(removed) do each('ZREM', KEYS[lane], ids) end
for _, id in ipairs(expired) do
  redis.call('SETRANGE', job_prefix .. id, 1, string.char(STATE.skipped))
  redis.call('SETRANGE', job_prefix .. id, 3, string.char(4))
  redis.call('SETRANGE', job_prefix .. id, 32, struct.pack('>i8', now_ms))
  redis.call('ZADD', skipped_key, now_ms, id)
end
each('SADD', damaged_key, damaged)
if #watched > 0 then redis.call('PUBLISH', finished_channel, table.concat(watched, ',')) end
local passed_over = #expired + #damaged
if #claimed == 0 then return {'ok', now_ms, busy, 0, passed_over, is_exhausted, {}} end

local first_fence = math.max(tonumber(redis.call('GET', fence_key) or '0') + 1, now_ms)
redis.call('SET', fence_key, string.format('%.0f', first_fence + #claimed / 2 - 1))
local running, ids = {}, {}
for i = 1, #claimed, 2 do
  local id, record, n = claimed[i], claimed[i + 1], (i - 1) / 2
  local flags = string.byte(record, 3)
  if has_flag(flags, FLAG_CONFIRMED) then flags = flags - FLAG_CONFIRMED end
  local attempt = struct.unpack('>I4', record, 5)
  redis.call('SETRANGE', job_prefix .. id, 1,
    string.char(STATE.running, flags, 0) .. struct.pack('>I4', attempt + 1) .. string.sub(record, 9, 16)
    .. struct.pack('>i8i8i8i8i8', 0, now_ms, 0, now_ms + offer_ms, first_fence + n)
    .. string.sub(tokens, n * 16 + 1, n * 16 + 16) .. worker_id_bytes)
  -- The sooner of lease end and deadline: whichever comes first needs the leader's eye.
  running[#running + 1] = now_ms + math.min(lease_ms, offer_ms + int64(record, 97) + grace_ms)
  running[#running + 1] = id
  ids[#ids + 1] = id
end
add_all(running_key, running)
each('SADD', claims_key, ids)
return {'ok', now_ms, busy + #ids, first_fence, passed_over, is_exhausted, claimed}
