#!lua flags=allow-oom
-- Ends running attempts as succeeded, if the caller holds their tokens. A repeat of an accepted report is accepted
-- again.
-- KEYS running:zset succeeded:zset results:zset claims:set worker:hash [+ claims:set worker:hash]
-- ARGV now_ms tag
--   workers(20 bytes for each worker, in the order of their keys: its ID, 16 bytes; number of its attempts, 4 bytes)
--   result_ttl_ms
--   wake_channel(empty: wake nobody)
--   finished_channel
--   used(MessagePack: by number of the attempt, a list of two: time of the attempt's last call in ms, or 0;
--       thousandths used, by unit. Empty: no report)
--   [+ id token_bytes result](of the attempts of each worker in turn)
-- REPLY ok:
--     [1: accepted, 0: stale or damaged, -1: stale, and the worker is not registered],
--     1 if more jobs can start now than before this call,
--     for each worker: [name, run_ms, jobs](of the attempts that ended in this call)
-- CHECKS FIRST that each job is running under its token at its worker, and that its lane is not damaged;
--   for a worker without such a job, that the worker is registered
-- include lib/lazily.lua
-- include lib/clock.lua
-- include lib/jobs/record.lua
-- include lib/jobs/heads.lua
-- include lib/lists.lua
-- include lib/lanes/lanes.lua
-- include lib/lanes/lane_writes.lua
-- include lib/constraints/charges.lua
-- include lib/jobs/followed.lua
-- include lib/challenges/challenges.lua
local running_key, succeeded_key, results_key, FIRST_KEY, KEYS_EACH = KEYS[1], KEYS[2], KEYS[3], 4, 2
local now_ms, workers, result_ttl_ms = clock.now_ms(ARGV[1]), ARGV[3], tonumber(ARGV[4])
local tag = ARGV[2]
local wake_channel, finished_channel, packed_used = ARGV[5], ARGV[6], ARGV[7]
local ID_LENGTH, WORKER_LENGTH = 16, 20
local FIRST, WIDTH = 8, 3

local used = packed_used ~= '' and cmsgpack.unpack(packed_used) or nil
local byte, sub, add_pair = string.byte, string.sub, lists.add_pair
local job_prefix, result_prefix = tag .. 'job:', tag .. 'result:'
local accepted, ended, finished_at, results, watched, runs = {}, {}, {}, {}, {}, {}
local count = 0
local now_bytes, now_text = struct.pack('>i8', now_ms), string.format('%.0f', now_ms)

-- A cache, because jobs that were claimed together have the same bytes in many fields. Key: the bytes of a record from
-- `state` to `started_at_ms`. Value: how an attempt with these bytes ends; false: no attempt runs.
local endings = {}
-- Another cache. Key: the bytes of a record from `lane_id` to the number of gates. Value: the lane, and how many of its
-- jobs this call has counted.
local homes, homes_seen = {}, {}
local keys, is_ended = {}, {}
for i = FIRST, #ARGV, WIDTH do keys[(i - FIRST) / WIDTH + 1] = job_prefix .. ARGV[i] end
local head_of, forget_heads = heads.reader(keys)
local args = ARGV

local has_several = #workers > WORKER_LENGTH

local function keys_of(at)
  local key_at = FIRST_KEY + (at - 1) / WORKER_LENGTH * KEYS_EACH
  return KEYS[key_at], KEYS[key_at + 1]
end

-- Returns the home of the job with this head; nil if its lane is damaged. An error in the middle of the call would
-- leave attempts of other workers half ended, so a damaged lane must not raise one.
local function home_of(head)
  local home_bytes = sub(head, layout.lane_id.at, layout.name.at + byte(head, layout.name.length_at))
  local home = homes[home_bytes]
  if home then return home end
  local is_read, lane, own = pcall(lanes.home_of, head)
  if not is_read then return nil end
  home = {lane = lane, brings_gates = own ~= nil, has_gates = own or #lane.shared > 0 or #lane.keyed > 0,
    name = record.name_of(head), ended = 0, runs = {}}
  homes[home_bytes] = home
  homes_seen[#homes_seen + 1] = home
  return home
end

local next_number = 1
for at = 1, #workers, WORKER_LENGTH do
  local worker_id_bytes, claims_key, worker_key = sub(workers, at, at + ID_LENGTH - 1), keys_of(at)
  local first, known, count_before = next_number, 0, count
  next_number = first + struct.unpack('>I4', workers, at + ID_LENGTH)
  local last = next_number - 1
  for number = first, last do
    local key, at = keys[number], FIRST + (number - 1) * WIDTH
    local id, token_bytes, result = args[at], args[at + 1], args[at + 2]
    -- The call lists this job twice, and has already changed its record. Read it again.
    if is_ended[id] then forget_heads() end
    local head = head_of(number)
    local is_ours = #head >= layout.head.length and sub(head, layout.token.at, layout.token.last) == token_bytes
      and sub(head, layout.worker_id.at, layout.worker_id.last) == worker_id_bytes
    local progress = is_ours and sub(head, layout.state.at, layout.started_at_ms.last)
    local ending = is_ours and endings[progress]
    if is_ours and ending == nil then
      local state, flags = byte(head, layout.state.at, layout.flags.at)
      local has_challenge = record.has_flag(flags, layout.FLAG.has_challenge)
      if has_challenge then flags = flags - layout.FLAG.has_challenge end
      -- `patch`: the new bytes of the record from `state` to `finished_at_ms`.
      ending = state == layout.STATE.running and {patch = string.char(layout.STATE.succeeded, flags, layout.CAUSE.none)
          .. sub(head, layout.attempt.at, layout.started_at_ms.last) .. now_bytes,
        run_ms = now_ms - record.int64(head, layout.started_at_ms.at),
        keeps_result = record.has_flag(flags, layout.FLAG.keep_result),
        is_watched = record.has_flag(flags, layout.FLAG.watched),
        is_followed = record.has_flag(flags, layout.FLAG.followed), has_challenge = has_challenge}
      endings[progress] = ending
    end
    local home = ending and home_of(head)
    if home then
      redis.call('SETRANGE', key, layout.state.offset, ending.patch)
      count = count + 1
      ended[count], is_ended[id] = id, true
      finished_at[2 * count - 1], finished_at[2 * count] = now_text, id
      home.ended = home.ended + 1
      local run_ms = ending.run_ms
      home.runs[run_ms] = (home.runs[run_ms] or 0) + 1
      if home.has_gates then
        local own = home.brings_gates and record.own_gates(head) or nil
        if used and used[number] then
          charges.settle_at(id, token_bytes, used[number], now_ms, home.lane.shared, own or home.lane.keyed)
        end
        lanes.free(home.lane, own, id)
      end
      if ending.keeps_result then
        redis.call('SET', result_prefix .. id, result)
        add_pair(results, now_ms + result_ttl_ms, id)
      end
      if ending.is_followed then followed.moved(key, head, layout.STATE.succeeded, now_ms) end
      if ending.has_challenge then challenges.close(id, head, layout.STATE.succeeded, now_ms) end
      if ending.is_watched then watched[#watched + 1] = id end
      accepted[number] = 1
      known = known + 1
    else
      local is_repeat = is_ours and byte(head, layout.state.at) == layout.STATE.succeeded
      accepted[number] = is_repeat and 1 or 0
      known = known + accepted[number]
      -- Write again on a repeated call. WAIT covers only writes of its own connection, and the write of the first call
      -- may never have reached the replicas.
      if is_repeat then record.write_again(key, head) end
    end
  end
  -- If all reports are stale, check whether the worker is registered. A worker with a valid token certainly is.
  if known == 0 and redis.call('EXISTS', worker_key) == 0 then
    for number = first, last do accepted[number] = -1 end
  end
  local of_worker, of_ended = {}, has_several and {} or ended
  for _, home in ipairs(homes_seen) do
    for run_ms, times in pairs(home.runs) do
      of_worker[#of_worker + 1] = home.name
      of_worker[#of_worker + 1] = run_ms
      of_worker[#of_worker + 1] = times
    end
    if has_several then home.runs = {} end
  end
  runs[#runs + 1] = of_worker
  for n = count_before + 1, has_several and count or 0 do of_ended[n - count_before] = ended[n] end
  -- Ignore an error, because a key of another type must not stop the call in the middle.
  if #of_ended > 0 then redis.pcall('SREM', claims_key, unpack(of_ended)) end
  if wake_channel ~= '' and count > count_before then
    redis.call('PUBLISH', wake_channel, 'freed:' .. record.uuid_text(worker_id_bytes) .. ':' .. count - count_before)
  end
end
for _, home in ipairs(homes_seen) do lanes.count(home.lane, nil, -home.ended, 0) end
lists.call('ZREM', running_key, ended)
lists.zadd(succeeded_key, finished_at)
lists.zadd(results_key, results)
local has_opened = lane_writes.write(nil)
if lazily.is_made(followed) then followed.write(now_ms) end
if #watched > 0 then redis.call('PUBLISH', finished_channel, table.concat(watched, ',')) end
if wake_channel ~= '' and has_opened then redis.call('PUBLISH', wake_channel, 'ready') end
return {'ok', accepted, has_opened and 1 or 0, runs}
