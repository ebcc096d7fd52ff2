-- include lib/jobs/record.lua
-- include lib/lists.lua
-- include lib/constraints/gate_ids.lua
-- include lib/constraints/waiting.lua
-- Lanes: where ready jobs wait; docs/redis_keys.md tells the whole structure.
--
-- A whole group of lanes shares the gates without a key: the jobs of one queue under the same such gates. A group has a
-- base lane, in which each job brings its keyed gates along in its record. While those are open there is no other lane,
-- however many key values there are. A job that a claim finds behind a closed gate goes to a lane of its own kind, and
-- later jobs like it go there at once.
--
-- Changes of lanes are gathered here, and written once by lib/lanes/lane_writes.lua.
local lanes = (function()
  local tag = ARGV.tag
  local sub = string.sub
  local under = lists.under
  local own_gates = record.own_gates
  local loaded, by_bytes = {}, {}
  -- Lanes that changed; and, by gate, the jobs that had brought it along and whose claims ended.
  local changed, freed_own = {}, {}

  -- A lane is one string: queue (the name, with the labels that its jobs ask for), edition, group, shared gates, keyed
  -- gates, gate at which it lies, priority and place in the order, unfinished jobs. Lanes come and go in any number,
  -- and a hash costs several times as much.
  -- The pattern is written out, because most scripts begin with it, whatever they do then.
  local FIELDS = '^([^\n]*)\n([^\n]*)\n([^\n]*)\n([^\n]*)\n([^\n]*)\n([^\n]*)\n([^\n]*)\n([^\n]*)\n([^\n]*)$'

  -- Returns the name of a queue: the part before the labels that its jobs ask for, if any.
  local function name_of(queue)
    local at = queue and string.find(queue, '\t', 1, true)
    return at and sub(queue, 1, at - 1) or queue
  end

  local function save(lane)
    redis.call('SET', tag .. 'lane:' .. lane.id, table.concat({lane.queue, lane.edition, lane.group,
      table.concat(lane.shared), table.concat(lane.keyed), lane.at, string.format('%.0f', lane.score),
      lane.member, lane.jobs}, '\n'))
  end

  local function by_id(id, name_if_lost)
    local lane = loaded[id]
    if lane then return lane end
    local queue, edition, group, shared, keyed, at, score, member, jobs =
      string.match(redis.call('GET', tag .. 'lane:' .. id) or '', FIELDS)
    local is_lost = not queue
    queue = queue or name_if_lost
    lane = {id = id, is_lost = is_lost, name = name_of(queue), queue = queue, edition = tonumber(edition or -1),
      group = group or id, shared = gate_ids.split(shared or ''), keyed = gate_ids.split(keyed or ''), at = at or '',
      score = tonumber(score or 0), member = member or '', jobs = tonumber(jobs or 0), added = {}, removed = {},
      taken = 0, jobs_more = 0, waiting_more = 0}
    loaded[id] = lane
    return lane
  end

  local function touch(lane)
    if not lane.is_changed then
      lane.is_changed = true
      changed[#changed + 1] = lane
    end
    return lane
  end

  -- Returns the lane of a record's head. A lane whose own key was lost is recreated without gates and of no edition, so
  -- the leader matches it again.
  local function of(head)
    local bytes = record.lane_id_of(head)
    local lane = by_bytes[bytes]
    if not lane then
      local id = record.hex(bytes)
      lane = loaded[id] or by_id(id, record.name_of(head))
      by_bytes[bytes] = lane
    end
    if lane.is_lost then lane.is_lost, touch(lane).is_new = false, true end
    return lane
  end

  -- A lane that is there from now on.
  local function made(id, queue, edition, group, shared, keyed)
    local lane = by_id(id)
    if lane.is_lost then
      lane.is_lost, touch(lane).is_new = false, true
      lane.name, lane.queue = name_of(queue), queue
      lane.edition, lane.group, lane.shared, lane.keyed = edition, group, shared, keyed
    end
    return lane
  end

  -- The lane of a group whose jobs have these keyed gates.
  local function id_of(group, keyed)
    return sub(redis.sha1hex(group .. table.concat(keyed)), 1, layout.lane.id_length)
  end

  -- Its ID as records have it.
  local function bytes_of(lane)
    lane.bytes = lane.bytes or string.gsub(lane.id, '%x%x', function(pair) return string.char(tonumber(pair, 16)) end)
    return lane.bytes
  end

  -- Returns where a job waits, runs or waited: its lane, and the keyed gates that it brings along (nil: those of the
  -- lane).
  local function home_of(head)
    local lane = of(head)
    return lane, #lane.keyed == 0 and own_gates(head) or nil
  end

  -- As `home_of`, for a record that may be readable only as far as its lane; nil if not even that, or if the lane is
  -- gone. Returns third whether those are all of its gates.
  local function home_of_damaged(key)
    local head = record.beginning(key, layout.head.length)
    if #head < layout.head.length then return nil end
    local lane = by_id(record.hex(record.lane_id_of(head)))
    if lane.is_lost then return nil end
    local whole = record.read_head(key)
    if #lane.keyed > 0 then return lane, nil, true end
    return lane, whole ~= '' and own_gates(whole) or nil, whole ~= ''
  end

  -- The order in which a lane stands, if it does: among the open ones, or at the gate that closed it.
  local function order_key(lane)
    if lane.at == '' then return tag .. 'open:' .. lane.group end
    return tag .. 'parked:' .. lane.at .. ':' .. lane.group
  end

  -- `jobs`: change of the lane's unfinished jobs; `waiting_jobs`: change of those of them that do not run.
  local function count(lane, own, jobs, waiting_jobs)
    if not lane.is_changed then touch(lane) end
    lane.jobs_more, lane.waiting_more = lane.jobs_more + jobs, lane.waiting_more + waiting_jobs
    if own and waiting_jobs ~= 0 then waiting.add(own, waiting_jobs) end
  end

  local function add(lane, priority, id)
    -- Each job of a bulk passes here: calls of functions would take as long as all the rest.
    if not lane.is_changed then touch(lane) end
    local added = lane.added
    local n = #added
    added[n + 1], added[n + 2] = priority, id
    local score, first = priority + 0, lane.first_added
    if not first or score < first[1] or (score == first[1] and id < first[2]) then lane.first_added = {score, id} end
  end

  -- A claim does not use this: it takes jobs from the front, and counts them in `taken`.
  local function remove(lane, id)
    if not lane.is_changed then touch(lane) end
    local removed = lane.removed
    removed[#removed + 1] = id
  end

  -- The claim of `id` ends: its slots are free when the lanes are written.
  local function free(lane, own, id)
    touch(lane)
    -- Only gates have slots.
    if #lane.shared > 0 or #lane.keyed > 0 then table.insert(under(lane, 'freed'), id) end
    if own then
      for _, gate_id in ipairs(own) do table.insert(under(freed_own, gate_id), id) end
    end
  end

  return {
    changed = changed, freed_own = freed_own, save = save, by_id = by_id, touch = touch, of = of, made = made,
    id_of = id_of, bytes_of = bytes_of, home_of = home_of, home_of_damaged = home_of_damaged,
    order_key = order_key, count = count, add = add, remove = remove, free = free,
  }
end)()
