-- include lib/jobs/record.lua
-- include lib/lists.lua
-- include lib/constraints/gate_ids.lua
-- include lib/constraints/waiting.lua
-- Lanes, in which ready jobs wait. docs/redis_keys.md describes the whole structure.
--
-- A group has the jobs of one queue that have the same shared gates (gates without a key). Its jobs wait in the base
-- lane, and their records hold their keyed gates. As long as these gates are open, there is no other lane, even if
-- there are many key values. If a claim finds a job with a closed keyed gate, it moves the job to a lane for exactly
-- the keyed gates of this job. Later jobs with the same gates go to that lane at once.
--
-- This module collects changes of lanes. lib/lanes/lane_writes.lua writes them once at the end.
local lanes = (function()
  local tag = ARGV.tag
  local sub = string.sub
  local under = lists.under
  local own_gates = record.own_gates
  local loaded, by_bytes = {}, {}
  -- `changed`: the changed lanes. `freed_own`: by gate, the jobs whose claims have ended and whose records have this
  -- gate.
  local changed, freed_own = {}, {}

  -- A lane is stored as one string with these lines, because a hash would cost several times as much:
  --   queue: the name, with the labels that its jobs require
  --   edition
  --   group
  --   shared gates
  --   keyed gates
  --   gate at which the lane is parked
  --   score in its order
  --   member in its order
  --   number of unfinished jobs
  -- The pattern is written out, because this is faster, and most scripts begin with it.
  local FIELDS = '^([^\n]*)\n([^\n]*)\n([^\n]*)\n([^\n]*)\n([^\n]*)\n([^\n]*)\n([^\n]*)\n([^\n]*)\n([^\n]*)$'

  -- Returns the name of a queue: the part before the labels that its jobs require.
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

  -- Returns the lane of the job with this head. If the key of the lane was lost, recreates the lane without gates and
  -- without an edition, so that the leader matches its jobs to the constraints again.
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

  -- Returns a lane, and creates it if it does not exist.
  local function made(id, queue, edition, group, shared, keyed)
    local lane = by_id(id)
    if lane.is_lost then
      lane.is_lost, touch(lane).is_new = false, true
      lane.name, lane.queue = name_of(queue), queue
      lane.edition, lane.group, lane.shared, lane.keyed = edition, group, shared, keyed
    end
    return lane
  end

  -- Returns the ID of the lane of a group for these keyed gates.
  local function id_of(group, keyed)
    return sub(redis.sha1hex(group .. table.concat(keyed)), 1, layout.lane.id_length)
  end

  -- Returns the lane's ID in the form of records: 8 bytes.
  local function bytes_of(lane)
    lane.bytes = lane.bytes or string.gsub(lane.id, '%x%x', function(pair) return string.char(tonumber(pair, 16)) end)
    return lane.bytes
  end

  -- Returns the lane of a job, and the keyed gates in the job's record; nil: the lane has the keyed gates.
  local function home_of(head)
    local lane = of(head)
    return lane, #lane.keyed == 0 and own_gates(head) or nil
  end

  -- Returns the results of `home_of` for a damaged record; nil: the lane cannot be read or does not exist. Also returns
  -- whether these gates are all gates of the job.
  local function home_of_damaged(key)
    local head = record.beginning(key, layout.head.length)
    if #head < layout.head.length then return nil end
    local lane = by_id(record.hex(record.lane_id_of(head)))
    if lane.is_lost then return nil end
    local whole = record.read_head(key)
    if #lane.keyed > 0 then return lane, nil, true end
    return lane, whole ~= '' and own_gates(whole) or nil, whole ~= ''
  end

  -- Returns the key of the order in which the lane stands: the open lanes of its group, or the lanes parked at its
  -- gate.
  local function order_key(lane)
    if lane.at == '' then return tag .. 'open:' .. lane.group end
    return tag .. 'parked:' .. lane.at .. ':' .. lane.group
  end

  -- Adds to the counts of a lane. `jobs`: how many more jobs are unfinished. `waiting_jobs`: how many more of the
  -- unfinished jobs are not running.
  local function count(lane, own, jobs, waiting_jobs)
    if not lane.is_changed then touch(lane) end
    lane.jobs_more, lane.waiting_more = lane.jobs_more + jobs, lane.waiting_more + waiting_jobs
    if own and waiting_jobs ~= 0 then waiting.add(own, waiting_jobs) end
  end

  local function add(lane, priority, id)
    -- Call as few functions as possible. This runs for each job of a bulk push, and one call would take as long as the
    -- rest of the work.
    if not lane.is_changed then touch(lane) end
    local added = lane.added
    local n = #added
    added[n + 1], added[n + 2] = priority, id
    local score, first = priority + 0, lane.first_added
    if not first or score < first[1] or (score == first[1] and id < first[2]) then lane.first_added = {score, id} end
  end

  -- Removes a job from a lane. Claims do not call this: they take jobs from the front and count them in `taken`.
  local function remove(lane, id)
    if not lane.is_changed then touch(lane) end
    local removed = lane.removed
    removed[#removed + 1] = id
  end

  -- Notes that the claim of the job `id` has ended. The slots of the job are given back when the lanes are written.
  local function free(lane, own, id)
    touch(lane)
    -- Skip a lane without gates, because it has no slots.
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
