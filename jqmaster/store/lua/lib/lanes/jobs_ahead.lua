-- include lib/jobs/record.lua
-- include lib/constraints/gates.lua
-- include lib/lanes/lanes.lua
-- include lib/lanes/turns.lua
-- include lib/lanes/parking.lua
-- Counts the jobs that start before a ready job. Reads only a limited number of groups, lanes and jobs.
local jobs_ahead = (function()
  local tag = ARGV.tag
  -- MAX_GROUPS: maximum number of groups of lanes that are read for one gate or name. MAX_JOBS: maximum number of
  -- waiting jobs that are read.
  local MAX_GROUPS, MAX_JOBS = 200, 500
  -- A text that sorts after every job ID and every stamp of `served`.
  local LAST = '~'
  -- The accuracy of the numbers: exact, a lower bound, or approximate.
  local EXACT, AT_LEAST, ABOUT = 0, 1, 2
  local bound = EXACT
  -- Facts about the job, and about the jobs that may start before it.
  local now_ms, edition, passed, is_keyed
  local own_score, own_before, own_turns, own_is_fair, own_share, own_order, own_first
  -- By name: the number of jobs that start before this one.
  local ahead = {}
  local jobs_left, lanes_left = MAX_JOBS, 0
  local seen_lanes, seen_groups, taken = {}, {}, {}

  -- Returns whether the other lane takes turns with this job's lane at a fair gate that both of them pass.
  local function shares_turn(other)
    for _, gate_id in ipairs(other.keyed) do
      if passed[gate_id] and gates.of(gate_id, now_ms).is_fair then return true end
    end
    return false
  end

  -- Counts the members of a sorted set that come before a position. Returns the number with a smaller score, and the
  -- number with the same score and a smaller member. All members have the same length.
  local function count_before(key, score, member)
    local smaller = redis.call('ZCOUNT', key, '-inf', '(' .. score)
    local low, high = smaller, redis.call('ZCOUNT', key, '-inf', score)
    while low < high do
      local middle = math.floor((low + high) / 2)
      if redis.call('ZRANGE', key, middle, middle)[1] < member then low = middle + 1 else high = middle end
    end
    return smaller, low - smaller
  end

  -- Returns how many jobs the gates of another lane or job would let start. Skips gates that this job has to pass, too,
  -- because the job that comes first starts first there. Also returns the gates that were not skipped.
  local function room_before(...)
    local room, others = gates.NO_ROOM_LIMIT, {}
    for _, list in ipairs({...}) do
      for _, gate_id in ipairs(list) do
        if not passed[gate_id] then
          others[#others + 1] = gate_id
          room = math.min(room, gates.of(gate_id, now_ms).room - (taken[gate_id] or 0))
        end
      end
    end
    return room, others
  end

  local function take_room(ids, count)
    for _, gate_id in ipairs(ids) do taken[gate_id] = (taken[gate_id] or 0) + count end
  end

  -- Counts how many of a lane's first jobs have room at their own gates.
  local function admissible(other, jobs)
    local count, start = 0, 0
    while start < jobs do
      if jobs_left <= 0 then
        bound = math.max(bound, AT_LEAST)
        return count
      end
      local page = redis.call('ZRANGE', tag .. 'ready:' .. other.id, start,
        math.min(start + 100, start + jobs_left, jobs) - 1)
      for _, id in ipairs(page) do
        local its_head = record.read_head(tag .. 'job:' .. id)
        local room, others = room_before(other.shared, its_head ~= '' and record.own_gates(its_head) or {})
        if room > 0 then
          count = count + 1
          take_room(others, 1)
        end
      end
      start, jobs_left = start + #page, jobs_left - #page
      if #page == 0 then return count end
    end
    return count
  end

  -- Returns how many jobs of another lane start before this one.
  local function jobs_before(other)
    local room, others = room_before(other.shared, other.keyed)
    if room <= 0 then return 0 end
    local key = tag .. 'ready:' .. other.id
    local smaller, same
    if turns.are_taken(other) then
      smaller = redis.call('ZCOUNT', key, '-inf', '(' .. own_score)
      same = redis.call('ZCOUNT', key, own_score, own_score)
      local first = redis.call('ZRANGE', key, 0, 0)[1]
      local _, its_share = turns.share_of(other)
      local turns_before = own_is_fair and math.ceil(own_turns * its_share / own_share) or 0
      -- If the next turn of the other lane comes before this job, count this turn, too. After that turn, the lane moves
      -- to the end of its priority.
      if smaller == 0 and first and turns.order_of(other, first) .. other.id < own_first then
        turns_before = turns_before + 1
      end
      same = math.min(same, turns_before)
      -- Later turns depend on facts that are not read here, so the number is approximate.
      if own_is_fair and smaller + same > 0 and (own_before > 0 or shares_turn(other)) then
        bound = math.max(bound, ABOUT)
      end
    else
      smaller, same = count_before(key, own_score, own_order)
      if is_keyed and #other.keyed == 0 then return admissible(other, smaller + same) end
    end
    local count = math.min(smaller + same, room)
    take_room(others, count)
    return count
  end

  -- Counts the jobs in an order of lanes (`open` or `parked`) that come before this job.
  local function walk(order_key, name)
    local start, is_first = 0, true
    while true do
      local page = redis.call('ZRANGE', order_key, start, start + 99, 'WITHSCORES')
      for at = 1, #page, 2 do
        local score, member = tonumber(page[at + 1]), page[at]
        if score > own_score or (score == own_score and member > own_order) then return end
        if lanes_left <= 0 then
          bound = math.max(bound, AT_LEAST)
          return
        end
        lanes_left = lanes_left - 1
        local other = lanes.by_id(string.sub(member, -layout.lane.id_length))
        -- Stop here if a shared gate is closed, because such a gate closes all lanes of its group.
        if is_first and (other.edition ~= edition or room_before(other.shared) <= 0) then return end
        is_first = false
        if not seen_lanes[other.id] then
          seen_lanes[other.id] = true
          ahead[name] = (ahead[name] or 0) + jobs_before(other)
        end
      end
      if #page < 200 then return end
      start = start + 100
    end
  end

  local function walk_group(group, name)
    if seen_groups[group] then return end
    seen_groups[group] = true
    walk(tag .. 'open:' .. group, name)
  end

  local function walk_waiters(gate_id, is_asked)
    local waiters_key = tag .. 'waiters:' .. gate_id
    if redis.call('SCARD', waiters_key) > MAX_GROUPS then
      bound = math.max(bound, AT_LEAST)
      return
    end
    for _, waiter in ipairs(redis.call('SMEMBERS', waiters_key)) do
      local is_group, group, name = parking.read_waiter(waiter)
      if is_asked[name] then
        if is_group then walk_group(group, name) else walk(tag .. 'parked:' .. gate_id .. ':' .. group, name) end
      end
    end
  end

  local function walk_open(name)
    local groups_key = tag .. 'open_groups:' .. name
    if redis.call('SCARD', groups_key) > MAX_GROUPS then
      bound = math.max(bound, AT_LEAST)
      return
    end
    for _, group in ipairs(redis.call('SMEMBERS', groups_key)) do walk_group(group, name) end
  end

  local function sum()
    local total = 0
    for _, count in pairs(ahead) do total = total + count end
    return total
  end

  -- Counts the jobs that start before a ready job. Returns a list that alternates names and counts, and the accuracy;
  -- nil: the job is not ready. `names`: the names whose jobs may start before it, its own name first. `job`: a table
  -- with
  --   id, lane;
  --   passed: the gates that the job passes, as a list and by ID;
  --   edition: the edition of the constraints;
  --   is_keyed: whether jobs of one lane may have different gates;
  --   max_lanes: the maximum number of lanes to read.
  local function count(job, names, at_ms)
    local lane, own_name = job.lane, job.lane.queue
    lanes_left, now_ms, edition, passed, is_keyed = job.max_lanes, at_ms, job.edition, job.passed, job.is_keyed
    local ready_key = tag .. 'ready:' .. lane.id
    local score = redis.call('ZSCORE', ready_key, job.id)
    if not score then return nil end
    own_score = tonumber(score)
    local smaller, same = count_before(ready_key, own_score, job.id)
    local _
    own_before, own_turns, own_is_fair = smaller + same, same, turns.are_taken(lane)
    _, own_share = turns.share_of(lane)
    own_first = (own_is_fair and turns.order_of(lane, redis.call('ZRANGE', ready_key, 0, 0)[1]) or job.id) .. lane.id
    own_order = (own_is_fair and own_before > 0) and LAST or own_first
    seen_lanes[lane.id] = true
    ahead[own_name] = (is_keyed and #lane.keyed == 0) and admissible(lane, own_before) or own_before
    local is_asked = {}
    for _, name in ipairs(names) do is_asked[name] = true end
    walk_group(lane.group, own_name)
    -- Also count lanes that are parked at the same gates, because their jobs may start before this job when a gate
    -- opens.
    for _, gate_id in ipairs(passed) do walk_waiters(gate_id, is_asked) end
    for _, name in ipairs(names) do walk_open(name) end
    if lane.at ~= '' and gates.of(lane.at, now_ms).room > 0 and sum() == 0 then
      -- Another lane of the group passes this gate first, but its jobs were not counted. Report "at least 1".
      ahead[own_name], bound = 1, AT_LEAST
    end
    local by_name = {}
    for _, name in ipairs(names) do
      if (ahead[name] or 0) > 0 then
        by_name[#by_name + 1] = name
        by_name[#by_name + 1] = ahead[name]
      end
    end
    return by_name, bound
  end

  return {count = count}
end)()
