#!lua flags=allow-oom
-- Claims jobs for workers that serve the same names:
-- 1. Claims jobs whose callbacks have arrived.
-- 2. Claims ready jobs that no gate holds back, by priority (the smallest first), then by age.
-- Each worker gets its share in turn.
-- KEYS epoch:string running:zset fence:string skipped:zset damaged:set rules:hash worker:hash claims:set mail:string
--     [+ worker:hash claims:set mail:string]
-- ARGV now_ms epoch edition
--   workers(21 bytes for each worker, in the order of their keys: its ID, 16 bytes; its limit, 4 bytes;
--       1 byte that tells whether the caller itself holds the worker's poll)
--   lease_ms offer_ms(time to accept an offer)
--   grace_ms(time after the timeout until a claim is reclaimed)
--   tag
--   tokens(16 bytes each)
--   finished_channel mail_channel
--   max_bytes(total size of the records claimed for one worker; only the last record may exceed it)
--   [+ name]
-- REPLY ok:
--     now_ms, first_fence,
--     number of expired or damaged jobs that were passed over,
--     is_exhausted(1: no more jobs of these names can start now),
--     ms until a gate opens by itself(-1: none),
--     [id record],
--     [name](of each expired job),
--     the answer for each worker: word(ok, or why it got no jobs), busy slots, claimed jobs
--   | stale_epoch | stale_constraints
--   | none:the answer for each worker
-- CHECKS FIRST that the epoch is current;
--   that the edition of the constraints is current;
--   for each worker: that it exists, that it has free slots, and, if it pulls, that its poll is open;
--   each gate;
--   each record
-- include lib/lazily.lua
-- include lib/clock.lua
-- include lib/leadership.lua
-- include lib/constraints/gates.lua
-- include lib/constraints/gate_ids.lua
-- include lib/constraints/weights.lua
-- include lib/constraints/passing.lua
-- include lib/lanes/lanes.lua
-- include lib/lanes/turns.lua
-- include lib/lanes/parking.lua
-- include lib/lanes/lane_writes.lua
-- include lib/jobs/claim_shares.lua
-- include lib/lanes/lane_queue.lua
-- include lib/lanes/open_lanes.lua
-- include lib/lanes/read_ahead.lua
-- include lib/jobs/taking.lua
-- include lib/challenges/callbacks.lua
-- include lib/constraints/served.lua
local epoch_key, running_key, fence_key, skipped_key, damaged_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local rules_key, FIRST_KEY = KEYS[6], 7
-- Limits of one call: jobs to read, jobs to move to closed gates, and lanes to move there.
local MAX_READ, MAX_MOVES = 5000, 1000
local now_ms, epoch, edition = clock.now_ms(ARGV[1]), ARGV[2], ARGV[3]
local offer_ms, finished_channel, mail_channel = tonumber(ARGV[6]), ARGV[10], ARGV[11]
local FIRST = 13

if not leadership.holds(epoch_key, epoch) then return {'stale_epoch'} end
local facts = redis.call('HMGET', rules_key, 'edition', 'settled', 'callback_names')
if (facts[1] or '0') ~= edition or (facts[2] or '0') ~= edition then return {'stale_constraints'} end

local worker_keys = {}
for n = FIRST_KEY, #KEYS do worker_keys[n - FIRST_KEY + 1] = KEYS[n] end
local limit, is_target = claim_shares.read(worker_keys, now_ms)
if limit == 0 then return {'none', claim_shares.answers()} end

-- Claim jobs with callbacks first, because their attempts have begun and other jobs wait for their slots.
local has_more_callbacks = facts[3] and callbacks.take(facts[3], FIRST, limit, is_target, now_ms)
for i = FIRST, #ARGV do open_lanes.add_name(ARGV[i], limit, now_ms) end
lane_queue.sort()

local first_of, take, progress = read_ahead.first_of, taking.take, taking.progress
local lanes_aside = 0
local function may_go_on()
  local count, bytes, jobs_aside = progress()
  local has_room
  has_room, limit = claim_shares.has_room(count, bytes)
  return has_room and read_ahead.count() < MAX_READ and jobs_aside + lanes_aside < MAX_MOVES
end

-- Claims jobs of a lane as long as they come before the first job of the next lane. Returns how many it claimed, and
-- the score and the ID of the job that is now first in this lane. `weighted`: the gates that count units, or nil.
local function take_many(lane, group, score, id, order, room, weighted)
  local next_item = lane_queue.first()
  -- If other lanes are parked at a gate of this lane, stop after one job, so that these lanes return to the queue. One
  -- of them may now come before this lane's next job.
  local has_keys = #lane.keyed > 0
  local is_awaited = has_keys and #parking.closed_among(lane.keyed) > 0
  local taken, moved = 0, false
  while id and taken < room and not moved and may_go_on()
    and (not next_item or lane_queue.comes_before(score, order, next_item)) do
    local is_taken, has_to_wait = take(lane, group, score, id, limit, now_ms, weighted, order)
    if has_to_wait then break end
    if is_taken then
      taken = taken + 1
      moved = has_keys and served.mark(lane, now_ms) or is_awaited
    end
    score, id = first_of(lane, room - taken, limit)
    order = id and next_item and turns.order_of(lane, id) .. lane.id or nil
  end
  return taken, score, id
end

-- Returns the first closed gate; nil: all are open. Creates the module `gates` only if there are gates, because most
-- jobs have none.
local function first_closed(ids)
  return #ids > 0 and gates.first_closed(ids, now_ms) or nil
end

-- Returns the gates of a lane that count units; nil if none does.
local function weighted_of(group, lane)
  for _, ids in ipairs({group.shared, lane.keyed}) do
    for _, id in ipairs(ids) do
      if gate_ids.may_have_charges(id) then
        return weights.among(lane.keyed, now_ms, weights.among(group.shared, now_ms))
      end
    end
  end
  return nil
end

local function serve(item)
  local group = item.group
  local closed_by = first_closed(group.shared)
  if closed_by then
    if closed_by.weight_default then weights.keep_for_first(closed_by, lanes.by_id(item.lane_id)) end
    parking.close_group(group.id, group.name, closed_by)
    group.is_closed = true
    return
  end
  local lane = lanes.by_id(item.lane_id)
  closed_by = first_closed(lane.keyed)
  if closed_by then
    if closed_by.weight_default then weights.keep_for_first(closed_by, lane) end
    -- `park` takes into account which jobs this call has taken from the lane.
    open_lanes.put(parking.park(lane, closed_by))
    lanes_aside = lanes_aside + 1
    return
  end
  local has_gates = #group.shared + #lane.keyed > 0
  local room = has_gates and math.min(gates.room_at(group.shared, now_ms), gates.room_at(lane.keyed, now_ms))
    or math.huge
  local score, id = first_of(lane, room, limit)
  local order = id and turns.order_of(lane, id) .. lane.id
  lanes.touch(lane).has_moved = true
  if id and lane_queue.comes_before(item.score, item.order, {score = score, order = order}) then
    -- The lane has moved back in the order. Open the lanes parked behind it, because they may now come first.
    if #lane.keyed > 0 then open_lanes.put(parking.follow(lane, nil)) end
    local next_item = lane_queue.first()
    if next_item and not lane_queue.comes_before(score, order, next_item) then
      lane_queue.put({score = score, order = order, lane_id = lane.id, group = group})
      return
    end
  end
  local taken
  taken, score, id = take_many(lane, group, score, id, order, room, has_gates and weighted_of(group, lane) or nil)
  if has_gates then
    passing.use_room(group.shared, taken, now_ms)
    passing.use_room(lane.keyed, taken, now_ms)
  end
  lane.first = id and {score, id} or false
  for _, gate_id in ipairs(#lane.keyed > 0 and parking.closed_among(lane.keyed) or {}) do
    if gates.of(gate_id, now_ms).room > 0 then open_lanes.put((parking.open(gate_id))) end
  end
  if id then
    lane_queue.put({score = score, order = turns.order_of(lane, id) .. lane.id, lane_id = lane.id, group = group})
  end
end

local is_cut_short = false
while lane_queue.first() and may_go_on() do
  local item = lane_queue.take_first()
  if not item.group.is_closed then
    if item.is_end then
      is_cut_short = true
      break
    end
    serve(item)
  end
end
-- An empty queue means that no lane has more jobs. A lane with more jobs returns to the queue, even if a limit ended
-- the search.
local is_exhausted = not lane_queue.first() and not is_cut_short and open_lanes.are_all_read()
  and not has_more_callbacks

local passed_over, expired_names = taking.write_passed_over(skipped_key, damaged_key, finished_channel, now_ms)
local first_fence, claimed = taking.write(running_key, fence_key, claim_shares.filled(progress()), now_ms)
claim_shares.give(offer_ms, mail_channel)
if lazily.is_made(passing) then passing.write(now_ms) end
if lazily.is_made(served) then served.write() end
-- If this write opens lanes, this call has not searched them.
if lane_writes.write(nil) then is_exhausted = false end
return {'ok', now_ms, first_fence, passed_over, is_exhausted and 1 or 0,
  lazily.is_made(gates) and gates.ms_until_opening(now_ms) or -1, claimed, expired_names, claim_shares.answers()}
