#!lua flags=no-writes
-- Where each job is, all at one instant: its record's beginning, the indexes that name it, and who holds it.
-- KEYS scheduled:zset retrying:zset running:zset succeeded:zset failed:zset canceled:zset skipped:zset results:zset [+ ready:zset]
-- ARGV job_prefix ready_prefix claims_prefix result_prefix history_prefix head_bytes worker_id(whose claims to look at too; empty: none) [+ id]
-- REPLY ok:[record_beginning, [index, score], [worker that holds it], exists result, discarded sometime, exists history]
-- CHECKS FIRST nothing; it writes nothing
-- include lib/record.lua
-- include lib/settle.lua
local LAST_INDEX, RESULTS, FIRST_LANE = 7, 8, 9
local job_prefix, ready_prefix, claims_prefix, result_prefix, history_prefix = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local head_bytes, worker_id = tonumber(ARGV[6]), ARGV[7]

local found = {}
for i = 8, #ARGV do
  local id = ARGV[i]
  local head = redis.pcall('GETRANGE', job_prefix .. id, 0, head_bytes - 1)
  if type(head) ~= 'string' then head = '?' end
  local inside, holders, lanes = {}, {}, {}
  for key = FIRST_LANE, #KEYS do lanes[KEYS[key]] = true end
  if #head >= 130 then lanes[ready_prefix .. name_of(head)] = true end
  for key = 1, LAST_INDEX do lanes[KEYS[key]] = true end
  for key in pairs(lanes) do
    local score = redis.call('ZSCORE', key, id)
    if score then
      inside[#inside + 1] = key
      inside[#inside + 1] = score
    end
  end
  local suspects = {}
  if worker_id ~= '' then suspects[worker_id] = true end
  if #head >= 88 and string.sub(head, 73, 88) ~= NO_ID then suspects[uuid_text(string.sub(head, 73, 88))] = true end
  for holder in pairs(suspects) do
    if redis.call('SISMEMBER', claims_prefix .. holder, id) == 1 then holders[#holders + 1] = holder end
  end
  found[#found + 1] = {head, inside, holders, redis.call('EXISTS', result_prefix .. id),
    redis.call('ZSCORE', KEYS[RESULTS], id) and 1 or 0, redis.call('EXISTS', history_prefix .. id)}
end
return {'ok', found}
