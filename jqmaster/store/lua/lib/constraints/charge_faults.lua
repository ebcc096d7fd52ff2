-- include lib/lazily.lua
-- include lib/jobs/record.lua
-- include lib/lanes/lanes.lua
-- include lib/constraints/gate_ids.lua
-- include lib/constraints/constraints.lua
-- include lib/constraints/slots.lua
-- include lib/constraints/charges.lua
-- include lib/constraints/weights.lua
-- Finds charges that do not agree with the running jobs, and sums that do not agree with the charges. A gate may have
-- more charges than one call may check, so the charges are checked in pieces. Sums are checked with the first piece.
local charge_faults = lazily.made_by(function()
  local tag = ARGV.tag
  -- MAX_JOBS: maximum number of jobs that one call checks at a gate.
  -- MAX_SUMMED: maximum number of charges or starts that it adds up.
  -- SUMMED_PER_JOB: number of charges that take as long to add up as one job takes to check.
  local MAX_JOBS, MAX_SUMMED, SUMMED_PER_JOB = 1000, 20000, 10
  local checked = 0

  local function passes(head, gate_id)
    local lane, own = lanes.home_of(head)
    for _, ids in ipairs({lane.shared, own or lane.keyed}) do
      for _, id in ipairs(ids) do
        if id == gate_id then return true end
      end
    end
    return false
  end

  local function is_charged_rightly(id, gate_id)
    local head = record.read_head(tag .. 'job:' .. id)
    if head == '' then return false end
    local state = record.state_of(head)
    return (state == layout.STATE.running or state == layout.STATE.awaiting_callback) and passes(head, gate_id)
  end

  -- Returns the jobs that hold a slot at the gate and have no charge there. Returns an empty list if the gate has more
  -- jobs than one call may check.
  local function uncharged(gate_id)
    local limits, found = constraints.limits_of(gate_id), {}
    if not (limits and limits.weight_default and limits.tracks_slots) then return found end
    local gate_lists, count = slots.kept_under(gate_id), 0
    for _, gate_list in ipairs(gate_lists) do count = count + redis.call('HLEN', tag .. 'slots:' .. gate_list) end
    if count > MAX_JOBS then return found end
    checked = checked + count
    for _, gate_list in ipairs(gate_lists) do
      for _, id in ipairs(redis.call('HKEYS', tag .. 'slots:' .. gate_list)) do
        if not charges.entry_at(gate_id, id) and is_charged_rightly(id, gate_id) then found[#found + 1] = id end
      end
    end
    return found
  end

  -- Returns the sum of the charges of all entries; nil: there are more entries than one call may add up.
  local function sum_of(count, read)
    if count > MAX_SUMMED then return nil end
    local sum = 0
    for _, entry in ipairs(read()) do sum = sum + charges.charge_of(entry) end
    checked = checked + count / SUMMED_PER_JOB
    return sum
  end

  local function sum_of_charges(gate_id)
    local key = tag .. 'charges:' .. gate_id
    return sum_of(redis.call('HLEN', key), function() return redis.call('HVALS', key) end)
  end

  local function sum_of_starts(gate_id)
    local key = tag .. 'starts:' .. gate_id
    return sum_of(redis.call('ZCARD', key), function() return redis.call('ZRANGE', key, 0, -1) end)
  end

  local function sum_of_handed_over(gate_id)
    local key = tag .. 'handed_over:' .. gate_id
    return sum_of(redis.call('SCARD', key), function()
      local ids, entries = redis.call('SMEMBERS', key), {}
      for from = 1, #ids, MAX_JOBS do
        local last = math.min(from + MAX_JOBS - 1, #ids)
        for _, entry in ipairs(redis.call('HMGET', tag .. 'charges:' .. gate_id, unpack(ids, from, last))) do
          if entry then entries[#entries + 1] = entry end
        end
      end
      return entries
    end)
  end

  -- Returns a table about one piece of a gate's charges, which begins at `cursor` ('0': the start):
  --   leaked    IDs in the piece whose charges belong to no running job
  --   missing   running jobs without a charge
  --   next      where the next piece begins ('0': there is none)
  -- The table also has the correct sums and the stored sums.
  local function of(gate_id, cursor)
    local page = redis.call('HSCAN', tag .. 'charges:' .. gate_id, cursor, 'COUNT', MAX_JOBS)
    local found = {leaked = {}, missing = {}, next = page[1], gate_id = gate_id}
    for at = 1, #page[2], 2 do
      if not is_charged_rightly(page[2][at], gate_id) then found.leaked[#found.leaked + 1] = page[2][at] end
    end
    checked = checked + #page[2] / 2
    found.counted = tonumber(redis.call('HGET', tag .. 'charge_sums', gate_id) or 0)
    found.counted_handed_over = tonumber(redis.call('HGET', tag .. 'handed_over_charges', gate_id) or 0)
    found.counted_starts = tonumber(redis.call('GET', tag .. 'started:' .. gate_id) or 0)
    local is_first = cursor == '0'
    if is_first then found.missing = uncharged(gate_id) end
    found.sum = is_first and sum_of_charges(gate_id) or found.counted
    found.handed_over = is_first and sum_of_handed_over(gate_id) or found.counted_handed_over
    found.starts = is_first and sum_of_starts(gate_id) or found.counted_starts
    found.is_faulty = #found.leaked > 0 or #found.missing > 0 or found.sum ~= found.counted
      or found.handed_over ~= found.counted_handed_over or found.starts ~= found.counted_starts
    return found
  end

  -- Returns whether this call has reached the limit of jobs to check.
  local function is_enough() return checked >= 2 * MAX_JOBS end

  local function set_sum(key, gate_id, sum)
    if sum == 0 then
      redis.call('HDEL', key, gate_id)
    else
      redis.call('HSET', key, gate_id, string.format('%.0f', sum))
    end
  end

  -- Repairs the charges of a gate. `found`: the table that `of` returned.
  local function repair(found)
    local gate_id, key = found.gate_id, tag .. 'charges:' .. found.gate_id
    local sum, handed_over = found.sum, found.handed_over
    for _, id in ipairs(found.leaked) do
      -- Read the entry again, because a scan may return a field twice.
      local entry = charges.entry_at(gate_id, id)
      local charge = entry and charges.charge_of(entry) or 0
      sum = sum - charge
      if redis.call('SISMEMBER', tag .. 'handed_over:' .. gate_id, id) == 1 then handed_over = handed_over - charge end
      redis.call('HDEL', key, id)
    end
    local limits = constraints.limits_of(gate_id)
    for _, id in ipairs(found.missing) do
      local job_key = tag .. 'job:' .. id
      local head = record.read_head(job_key)
      local weight = weights.at({cid = gate_ids.constraint_of(gate_id), weight_default = limits.weight_default},
        weights.of_extras(record.extras_of(job_key, head)))
      redis.call('HSET', key, id, charges.entry_of(record.token_of(head), weight))
      sum = sum + weight
    end
    set_sum(tag .. 'charge_sums', gate_id, sum)
    set_sum(tag .. 'handed_over_charges', gate_id, handed_over)
    local left_ms = redis.call('PTTL', tag .. 'starts:' .. gate_id)
    if left_ms > 0 then
      redis.call('SET', tag .. 'started:' .. gate_id, string.format('%.0f', found.starts), 'PX', left_ms)
    elseif left_ms == -2 then
      redis.call('DEL', tag .. 'started:' .. gate_id)
    end
  end

  return {of = of, is_enough = is_enough, repair = repair}
end)
