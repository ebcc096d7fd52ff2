-- include lib/lazily.lua
-- include lib/lists.lua
-- include lib/constraints/gate_ids.lua
-- include lib/constraints/slots.lua
-- include lib/constraints/charges.lua
-- include lib/constraints/kept_room.lua
-- include lib/lanes/lanes.lua
-- include lib/constraints/waiting.lua
-- include lib/lanes/turns.lua
-- include lib/lanes/parking.lua
-- include lib/constraints/gate_conditions.lua
-- Writes the changes of lanes that lib/lanes/lanes.lua has collected. The records of the jobs are already written. Each
-- lane and each gate is therefore written separately: a damaged one does not stop the others from being written.
local lane_writes = (function()
  local tag = ARGV.tag
  local WAKE = 'wake'
  local sub, under = string.sub, lists.under
  local changed = lanes.changed

  -- Returns the first job of a lane as {score, id}; nil if the lane is empty.
  local function first_job(lane)
    if lane.first ~= nil and #lane.added == 0 then return lane.first or nil end
    if lane.member == '' and #lane.removed == 0 and lane.taken == 0 then
      -- The lane was empty, so its first job is among those that were added now.
      return lane.first_added
    end
    local first = redis.call('ZRANGE', tag .. 'ready:' .. lane.id, 0, 0, 'WITHSCORES')
    return first[1] and {tonumber(first[2]), first[1]}
  end

  local function may_come_first(lane)
    if lane.has_moved or #lane.removed > 0 or lane.taken > 0 or lane.member == '' then return true end
    local added = lane.first_added
    if not added or added[1] > lane.score then return false end
    return added[1] < lane.score or added[2] < sub(lane.member, 1, -layout.lane.id_length - 1)
  end

  -- Adds to `gathered` how the place of one lane changes in the orders of lanes.
  local function gather_place(lane, gathered)
    if not may_come_first(lane) then return end
    local first = first_job(lane)
    local order_key = lanes.order_key(lane)
    local score, member = lane.score, ''
    if first then score, member = first[1], turns.order_of(lane, first[2]) .. lane.id end
    if score == lane.score and member == lane.member then return end
    local comes_sooner = first and (score < lane.score or (score == lane.score and member < lane.member))
    if lane.member ~= '' then
      table.insert(under(gathered.leaving, order_key), lane.member)
      if lane.at == '' then
        if not comes_sooner then gathered.fallen[#gathered.fallen + 1] = lane end
      elseif not first or (comes_sooner and not lane.stays) then
        gathered.left[#gathered.left + 1] = {lane = lane, order_key = order_key, gate_id = lane.at}
        lane.at = ''
        order_key = lanes.order_key(lane)
        gathered.has_opened = gathered.has_opened or first ~= nil
      end
    end
    if first then
      lists.add_pair(under(gathered.coming, order_key), score, member)
      if lane.at == '' then under(gathered.opening, lane.queue)[lane.group] = true end
    end
    lane.score, lane.member, lane.is_placed = score, member, true
  end

  local function leave_gate(item)
    if redis.call('EXISTS', item.order_key) == 0 then parking.lanes_left(item.gate_id, item.lane) end
  end

  -- Moves changed lanes in their orders to the positions of their first jobs. Returns whether any lane was opened:
  -- * A parked lane that moves forward is opened, because it may now come before the open lane of its group. The next
  --   claim checks it.
  -- * If an open lane moves back, lanes parked behind it are opened, because they may now come first.
  local function place()
    local gathered = {leaving = {}, coming = {}, opening = {}, fallen = {}, left = {}, has_opened = false}
    for _, lane in ipairs(changed) do lists.alone(gather_place, lane, gathered) end
    for key, list in pairs(gathered.leaving) do lists.alone(lists.call, 'ZREM', key, list) end
    for key, list in pairs(gathered.coming) do lists.alone(lists.zadd, key, list) end
    for queue, groups in pairs(gathered.opening) do
      for group in pairs(groups) do lists.alone(redis.call, 'SADD', tag .. 'open_groups:' .. queue, group) end
    end
    for _, item in ipairs(gathered.left) do lists.alone(leave_gate, item) end
    for _, lane in ipairs(gathered.fallen) do
      local came_back = #lane.keyed > 0 and lists.alone(parking.follow, lane, nil)
      if came_back and #came_back > 0 then gathered.has_opened = true end
    end
    return gathered.has_opened
  end

  local function forget_lanes(name, ids)
    redis.call('ZREM', tag .. 'lanes:' .. name, unpack(ids))
    if redis.call('EXISTS', tag .. 'lanes:' .. name) == 0 then
      redis.call('SREM', tag .. 'names', name)
      redis.call('HDEL', tag .. 'ready_counts', name)
    end
  end

  local function forget_group(lane)
    if lane.queue ~= lane.name and redis.call('HINCRBY', tag .. 'requirements', lane.queue, -1) <= 0 then
      redis.call('HDEL', tag .. 'requirements', lane.queue)
    end
    if redis.call('EXISTS', tag .. 'open:' .. lane.group) == 0 then
      redis.call('SREM', tag .. 'open_groups:' .. lane.queue, lane.group)
      for _, gate_id in ipairs(lane.shared) do parking.group_left(gate_id, lane) end
    end
  end

  -- Removes empty lanes with keyed gates, because there may be many of them. Other empty lanes are few, and the leader
  -- removes them.
  local function drop(dropped)
    local keys, names = {}, {}
    for _, lane in ipairs(dropped) do
      keys[#keys + 1] = tag .. 'lane:' .. lane.id
      table.insert(under(names, lane.name), lane.id)
    end
    redis.call('UNLINK', unpack(keys))
    for name, ids in pairs(names) do lists.alone(forget_lanes, name, ids) end
    for _, lane in ipairs(dropped) do lists.alone(forget_group, lane) end
  end

  local function list_new()
    local names, wake_channel = {}, tag .. WAKE
    for _, lane in ipairs(changed) do
      if lane.is_new then
        local list = under(names, lane.name)
        list[#list + 1] = lane.edition
        list[#list + 1] = lane.id
        -- Tell the leader about a new queue at once, so that it claims for workers with these labels. It reads the list
        -- of queues only every second.
        if lane.queue ~= lane.name and redis.call('HINCRBY', tag .. 'requirements', lane.queue, 1) == 1 then
          redis.call('PUBLISH', wake_channel, 'queue:' .. lane.queue)
        end
      end
    end
    for name, list in pairs(names) do
      lists.zadd(tag .. 'lanes:' .. name, list)
      redis.call('SADD', tag .. 'names', name)
    end
  end

  -- Gives back the slots of ended claims, and opens gates that have room again. Returns whether any lane was opened.
  local function free_slots(freed, unstarted_tokens)
    local ids, has_room, unstarted = {}, {}, nil
    local function never_started(gate_id)
      return lists.call('ZREM', tag .. 'starts:' .. gate_id, unstarted_tokens)
    end
    -- Gives back the charges of jobs at a gate. Called before the slots of these jobs are given back. Does nothing at a
    -- gate without charges.
    local function give_back_charges(gate_id, jobs)
      if not gate_ids.may_have_charges(gate_id) then return end
      if unstarted_tokens and not unstarted then
        unstarted = {}
        for _, token_bytes in ipairs(unstarted_tokens) do unstarted[token_bytes] = true end
      end
      if charges.give_back(gate_id, jobs, unstarted) then has_room[gate_id] = true end
    end
    -- Lists a gate to be opened if it may have more room. This is the case if jobs gave back slots or charges there, or
    -- if jobs never started.
    local function note_room(gate_id, slots_freed)
      local unbegun = unstarted_tokens and lists.alone(never_started, gate_id) or 0
      if slots_freed + unbegun > 0 or has_room[gate_id] then ids[#ids + 1] = gate_id end
    end
    -- Gives back the charges and the slots of jobs. Gives back the slots even if a hash of charges is damaged.
    local function free_at(gate_list, jobs_of_lanes)
      local count, gates_of_list = 0, gate_ids.split(gate_list)
      for _, jobs in ipairs(jobs_of_lanes) do
        for _, gate_id in ipairs(gates_of_list) do lists.alone(give_back_charges, gate_id, jobs) end
        count = count + slots.give_back(gate_list, jobs)
      end
      for _, gate_id in ipairs(gates_of_list) do note_room(gate_id, count) end
    end
    -- Does the same as `free_at` for a gate that only the records of jobs have. Creates no lists, because there may be
    -- one such gate for each job.
    local function free_own(gate_id, jobs)
      if gate_ids.may_have_charges(gate_id) then lists.alone(give_back_charges, gate_id, jobs) end
      note_room(gate_id, slots.give_back(gate_id, jobs))
    end
    for gate_list, jobs_of_lanes in pairs(freed) do lists.alone(free_at, gate_list, jobs_of_lanes) end
    for gate_id, jobs in pairs(lanes.freed_own) do lists.alone(free_own, gate_id, jobs) end
    if lazily.is_made(charges) then lists.alone(charges.write_sums) end
    return #ids > 0 and parking.open_all(parking.closed_among(ids))
  end

  -- Drops the room that gates keep for jobs that have left the lane or moved within it.
  local function end_waits(lane, left)
    local ids
    local function is_gone(id)
      if not ids then
        ids = {}
        for _, list in ipairs({lane.removed, lane.shifted}) do
          for _, one in ipairs(list) do ids[one] = true end
        end
      end
      return ids[id]
    end
    kept_room.leave(lane.shared, is_gone, left)
    kept_room.leave(lane.keyed, is_gone, left)
    -- These gates are not in the lane. Only the records of its jobs have them.
    kept_room.leave(lane.left_own or {}, is_gone, left)
  end

  -- Writes the jobs of one lane. Adds to `ready_more`, `freed` and `left`, which `write` evaluates for all lanes
  -- together.
  local function write_lane(lane, ready_more, freed, left)
    if lane.freed then
      if #lane.shared > 0 then table.insert(under(freed, table.concat(lane.shared)), lane.freed) end
      for _, gate_id in ipairs(lane.keyed) do table.insert(under(freed, gate_id), lane.freed) end
    end
    if lane.waiting_more ~= 0 then
      if #lane.shared > 0 then waiting.add(lane.shared, lane.waiting_more) end
      if #lane.keyed > 0 then waiting.add(lane.keyed, lane.waiting_more) end
    end
    local ready_key = tag .. 'ready:' .. lane.id
    -- Remove taken jobs before adding others. Taken jobs are removed by rank, from the front.
    local more = lane.taken > 0 and -redis.call('ZREMRANGEBYRANK', ready_key, 0, lane.taken - 1) or 0
    more = more + lists.zadd(ready_key, lane.added) - lists.call('ZREM', ready_key, lane.removed)
    if more ~= 0 and lane.name then ready_more[lane.name] = (ready_more[lane.name] or 0) + more end
    if (#lane.removed > 0 or lane.shifted) and (#lane.shared + #lane.keyed > 0 or lane.left_own) then
      end_waits(lane, left)
    end
  end

  -- Writes all changes. Called once, after the records are written. `unstarted_tokens`: tokens of claims whose jobs
  -- never started, or nil. Returns whether more jobs can start now than before this call.
  local function write(unstarted_tokens)
    local freed, ready_more, left = {}, {}, {}
    lists.alone(list_new)
    for _, lane in ipairs(changed) do lists.alone(write_lane, lane, ready_more, freed, left) end
    if lazily.is_made(waiting) then waiting.write() end
    for name, more in pairs(ready_more) do
      if more ~= 0 then lists.alone(redis.call, 'HINCRBY', tag .. 'ready_counts', name, more) end
    end
    local has_come_back = place()
    local has_room = free_slots(freed, unstarted_tokens)
    if #left > 0 then has_room = parking.open_all(parking.closed_among(left)) or has_room end
    if lazily.is_made(gate_conditions) then
      has_room = parking.open_all(parking.closed_among(lists.alone(gate_conditions.write) or {})) or has_room
    end
    local dropped = {}
    for _, lane in ipairs(changed) do
      lane.jobs = lane.jobs + lane.jobs_more
      if lane.jobs <= 0 and #lane.keyed > 0 then
        dropped[#dropped + 1] = lane
      elseif lane.is_new or lane.is_placed or lane.jobs_more ~= 0 then
        lanes.save(lane)
      end
      lane.jobs_more = 0
    end
    if #dropped > 0 then drop(dropped) end
    return has_come_back or has_room
  end

  return {write = write, drop = drop}
end)()
