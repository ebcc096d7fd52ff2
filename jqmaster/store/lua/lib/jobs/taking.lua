-- include lib/jobs/record.lua
-- include lib/lists.lua
-- include lib/constraints/gates.lua
-- include lib/constraints/passing.lua
-- include lib/constraints/gate_ids.lua
-- include lib/constraints/weights.lua
-- include lib/lanes/lanes.lua
-- include lib/lanes/turns.lua
-- include lib/lanes/parking.lua
-- include lib/lanes/read_ahead.lua
-- include lib/jobs/ready_jobs.lua
-- include lib/jobs/followed.lua
-- Takes jobs out of their lanes one by one. Writes all claims together at the end.
local taking = (function()
  local job_prefix, tokens = ARGV.tag .. 'job:', ARGV.tokens
  local lease_ms, offer_ms, grace_ms = tonumber(ARGV.lease_ms), tonumber(ARGV.offer_ms), tonumber(ARGV.grace_ms)
  local TOKEN_LENGTH = 16
  local sub, unpack_bytes, under, add_to = string.sub, struct.unpack, lists.under, table.insert
  local take_first, as_claimed, own_gates = read_ahead.take_first, ready_jobs.as_claimed, record.own_gates
  -- Jobs that are not claimed: expired jobs with their names, and damaged jobs. `watched`: expired jobs that
  -- clients wait for.
  local expired, expired_names, damaged, watched = {}, {}, {}, {}
  -- Counts of claimed jobs, of their bytes, and of jobs that were moved to closed gates.
  local count, bytes, moves = 0, 0, 0
  -- Facts about each claim. `claimed`: ID and record. `keys`, `beginnings`: the key of the record and its new
  -- beginning. `running`: the score in the index of running jobs, and the ID.
  local claimed, keys, beginnings, running = {}, {}, {}, {}
  -- By timeout: the result of `end_of`.
  local ends = {}

  local function token_of(n)
    return sub(tokens, (n - 1) * TOKEN_LENGTH + 1, n * TOKEN_LENGTH)
  end

  -- Returns when the leader checks the claim: at the end of the lease or at the deadline, whichever is sooner.
  local function end_of(timeout_ms, now_ms)
    local end_ms = string.format('%.0f', now_ms + math.min(lease_ms, offer_ms + timeout_ms + grace_ms))
    ends[timeout_ms] = end_ms
    return end_ms
  end

  -- Moves a job from the base lane to a lane for its own gates, and parks that lane at the closed gate.
  local function put_aside(base, own, closed_by, score, id, now_ms)
    local id_of_lane = lanes.id_of(base.group, own)
    local lane = lanes.by_id(id_of_lane)
    if lane.is_lost then
      lanes.made(id_of_lane, base.queue, base.edition, base.group, base.shared, own)
      lane.at = closed_by.id
    end
    if lane.at ~= '' and not lane.stays then
      local lies_at = gates.of(lane.at, now_ms)
      if lies_at.room <= 0 then
        parking.lane_lies_at(lies_at, lane)
        lane.stays = true
      end
    end
    redis.call('SETRANGE', job_prefix .. id, layout.lane_id.offset, lanes.bytes_of(lane))
    lanes.count(base, own, -1, -1)
    lanes.count(lane, nil, 1, 1)
    lanes.add(lane, score, id)
    moves = moves + 1
  end

  -- Returns the first of the job's own gates that holds it back; nil if none does.
  local function closed_own(own, job, lane, id, score, now_ms)
    local closed_by = gates.first_closed(own, now_ms)
    if closed_by then
      if closed_by.weight_default then
        weights.keep_at_closed(closed_by, weights.of_record(job), {id = id, score = score, order = id .. lane.id})
      end
      return closed_by
    end
    local weighted
    for n = 1, #own do
      if gate_ids.may_have_charges(own[n]) then
        weighted = weights.among(own, now_ms)
        break
      end
    end
    if not weighted or weights.all_have_room(weighted, weights.of_record(job)) then return nil end
    return weights.first_too_small(weighted, weights.of_record(job), {id = id, score = score, order = id .. lane.id})
  end

  -- Returns whether a job may start at these gates, which have a weight. `order`: the job's position in the order of
  -- claims, or nil if it is unknown.
  local function is_admitted(lane, weighted, job, id, score, order)
    local found = weights.of_record(job)
    if weights.all_have_room(weighted, found) then return true end
    local place = {id = id, score = score, order = order or turns.order_of(lane, id) .. lane.id}
    return not weights.first_too_small(weighted, found, place)
  end

  -- Takes the first job from its lane. `most`: how many jobs the call may claim in all. `weighted`: the gates of the
  -- lane that count units; nil: none. `order`: see `is_admitted`. Returns whether the job is claimed, and whether it
  -- stays first in its lane because it does not fit at these gates. Does not claim a job that has expired, is damaged,
  -- or was moved to a closed gate.
  local function take(lane, group, score, id, most, now_ms, weighted, order)
    local job, key = take_first(lane, most - count)
    local beginning, may_bring_gates = as_claimed(job)
    local keyed, shared = lane.keyed, group.shared
    if not beginning then
      if shared[1] or keyed[1] then add_to(under(lane, 'shifted'), id) end
      damaged[#damaged + 1] = id
      local _, own = lanes.home_of_damaged(job_prefix .. id)
      lanes.count(lane, own, -1, -1)
      return false
    end
    local own = may_bring_gates and #keyed == 0 and own_gates(job) or nil
    local timeout_ms, _, expires_at_ms = unpack_bytes('>i8i8i8', job, layout.timeout_ms.at)
    if expires_at_ms > 0 and expires_at_ms <= now_ms then
      -- Gates may keep room for this job. Drop this room.
      if shared[1] or keyed[1] then add_to(under(lane, 'shifted'), id) end
      expired[#expired + 1] = id
      expired_names[#expired] = record.name_of(job)
      lanes.count(lane, own, -1, -1)
      if record.has_flag(record.flags_of(job), layout.FLAG.watched) then watched[#watched + 1] = id end
      return false
    end
    if weighted and not is_admitted(lane, weighted, job, id, score, order) then
      read_ahead.put_back(lane)
      return false, true
    end
    if own then
      local closed_by = closed_own(own, job, lane, id, score, now_ms)
      if closed_by then
        put_aside(lane, own, closed_by, score, id, now_ms)
        return false
      end
      passing.use_room(own, 1, now_ms)
      lanes.count(lane, own, 0, -1)
    else
      lane.waiting_more = lane.waiting_more - 1
    end
    count = count + 1
    bytes = bytes + #job
    claimed[2 * count - 1], claimed[2 * count] = id, job
    keys[count], beginnings[count] = key, beginning
    running[2 * count - 1], running[2 * count] = ends[timeout_ms] or end_of(timeout_ms, now_ms), id
    if shared[1] then passing.add(shared, group, id, token_of(count), now_ms, job) end
    if own then passing.add_own(own, id, token_of(count), now_ms, job)
    elseif keyed[1] then passing.add(keyed, lane, id, token_of(count), now_ms, job) end
    return true
  end

  -- Claims a job whose attempt continues with its callbacks. `beginning`: the new bytes of its record from `state` to
  -- `returned_offers`. The slots of the job then belong to the new token. Returns how many bytes are claimed so far.
  local function take_callback(id, job, beginning, now_ms)
    count = count + 1
    bytes = bytes + #job
    claimed[2 * count - 1], claimed[2 * count] = id, job
    keys[count], beginnings[count] = job_prefix .. id, beginning
    local timeout_ms = unpack_bytes('>i8', job, layout.timeout_ms.at)
    running[2 * count - 1], running[2 * count] = ends[timeout_ms] or end_of(timeout_ms, now_ms), id
    local lane, own = lanes.home_of(job)
    local gate_lists = {table.concat(lane.shared)}
    for _, gate_id in ipairs(own or lane.keyed) do gate_lists[#gate_lists + 1] = gate_id end
    for _, gates_of_slot in ipairs(gate_lists) do
      local slots_key = ARGV.tag .. 'slots:' .. gates_of_slot
      if gates_of_slot ~= '' and redis.call('HEXISTS', slots_key, id) == 1 then
        redis.call('HSET', slots_key, id, token_of(count))
      end
    end
    return bytes
  end

  -- Returns the number of claimed jobs, their bytes, and the number of jobs that were moved to closed gates.
  local function progress()
    return count, bytes, moves
  end

  local function write_passed_over(skipped_key, damaged_key, finished_channel, now_ms)
    for _, id in ipairs(expired) do
      local head = record.read_head(job_prefix .. id)
      followed.moved(job_prefix .. id, head, layout.STATE.skipped, now_ms)
      record.set_state(job_prefix .. id, layout.STATE.skipped)
      redis.call('SETRANGE', job_prefix .. id, layout.cause.offset, string.char(layout.CAUSE.expired))
      record.set_int64(job_prefix .. id, layout.finished_at_ms.offset, now_ms)
      redis.call('ZADD', skipped_key, now_ms, id)
    end
    if #expired > 0 then followed.write(now_ms) end
    lists.call('SADD', damaged_key, damaged)
    if #watched > 0 then redis.call('PUBLISH', finished_channel, table.concat(watched, ',')) end
    return #expired + #damaged, expired_names
  end

  -- Writes the claims. The first `share.count` claims belong to the first share, the next ones to the second share, and
  -- so on. Each share has its worker's `claims_key` and `id_bytes`, and gets `offers`, a list that alternates IDs and
  -- tokens. Returns the first fence (0: no claims), and a list that alternates IDs and records.
  local function write(running_key, fence_key, shares, now_ms)
    if count == 0 then return 0, claimed end
    local first_fence = math.max(tonumber(redis.call('GET', fence_key) or '0') + 1, now_ms)
    redis.call('SET', fence_key, string.format('%.0f', first_fence + count - 1))
    -- The bytes of a record from `due_at_ms` to `not_after_ms`.
    local times = struct.pack('>i8i8i8i8', 0, now_ms, 0, now_ms + offer_ms)
    local before = 0
    for _, share in ipairs(shares) do
      local ids, offers, worker_id_bytes = {}, {}, share.id_bytes
      for n = before + 1, before + share.count do
        local token_bytes = token_of(n)
        redis.call('SETRANGE', keys[n], layout.state.offset,
          beginnings[n] .. times .. struct.pack('>i8', first_fence + n - 1) .. token_bytes .. worker_id_bytes)
        local at = n - before
        ids[at] = claimed[2 * n - 1]
        offers[2 * at - 1], offers[2 * at] = ids[at], token_bytes
      end
      before, share.offers = before + share.count, offers
      lists.call('SADD', share.claims_key, ids)
    end
    lists.zadd(running_key, running)
    return first_fence, claimed
  end

  return {
    take = take, take_callback = take_callback, progress = progress,
    write_passed_over = write_passed_over, write = write,
  }
end)()
