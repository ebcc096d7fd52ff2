-- include lib/lazily.lua
-- include lib/lists.lua
-- include lib/constraints/gate_ids.lua
-- include lib/constraints/constraints.lua
-- include lib/constraints/handed_over.lua
-- Charges at gates whose constraint has a weight. All numbers are thousandths of the constraint's unit.
--
-- `charges:{gate}` has an entry for each running job. `charge_sums` has the sum of these charges by gate.
-- `starts:{gate}` has the same entries by time, for the rate limit, and `started:{gate}` has the sum of these charges.
--
-- An entry is the token of the claim, followed by the charge as text. When a claim ends, it gives back exactly this
-- charge, even if the constraint has changed meanwhile. A start may be moved to the time at which the attempt called
-- the other system. The entry in `starts:{gate}` then ends with a space and the time of the claim.
local charges = lazily.made_by(function()
  local tag = ARGV.tag
  local TOKEN_LENGTH, MAX_NAMED, MAX_SINCE = 16, 1000, 5000
  -- Maximum number of expired starts that a call reads, over all gates.
  local expired_to_read = 5000
  -- The gates at which this call has read expired starts.
  local with_expired = {}
  local sub = string.sub
  -- `lowered`: by gate, whether settling an attempt has made room.
  -- `started`: by gate, the sum of the charges of its starts, including the changes of this call.
  -- `units`: by constraint, its unit.
  local lowered, started, units = {}, {}, {}
  local has_observed = nil
  -- `sum_more`: by gate, the change of its sum that is not yet written. `summed`: a list of these gates.
  local sum_more, summed = {}, {}

  local function text_of(number) return string.format('%.0f', number) end

  -- Returns the charge of an entry; 0: a master of an older release, without weights, wrote the entry.
  local function charge_of(entry)
    local text = sub(entry, TOKEN_LENGTH + 1)
    return tonumber(text) or tonumber(string.match(text, '^%d+')) or 0
  end

  -- Returns the entry of a start that is moved to another time: the old entry, and the time of the claim.
  local function moved(entry, claimed_ms) return entry .. ' ' .. text_of(claimed_ms) end

  -- Returns the time of the claim of a moved start; nil if the start was not moved.
  local function claimed_before(entry)
    return tonumber(string.match(sub(entry, TOKEN_LENGTH + 1), '^%d* (%d+)$') or nil)
  end

  -- Concatenate the number, because this is faster than `text_of`. Lua writes whole numbers of up to 14 digits exactly,
  -- and a charge has at most 13.
  local function entry_of(token_bytes, charge) return token_bytes .. charge end

  -- Returns the charge entry of a running job; false if it has none.
  local function entry_at(gate_id, id) return redis.call('HGET', tag .. 'charges:' .. gate_id, id) end

  -- Returns whether the window of a gate counts this entry.
  local function is_remembered(gate, entry)
    return not gate.window_most or redis.call('ZSCORE', tag .. 'starts:' .. gate.id, entry) ~= false
  end

  -- Adds to the sum of a gate. `write_sums` writes the sums of all gates.
  local function add_to_sum(gate_id, more)
    if not sum_more[gate_id] then summed[#summed + 1] = gate_id end
    sum_more[gate_id] = (sum_more[gate_id] or 0) + more
  end

  local function write_sums()
    local key = tag .. 'charge_sums'
    if #summed == 1 then
      local more = sum_more[summed[1]]
      if more ~= 0 and redis.call('HINCRBY', key, summed[1], text_of(more)) == 0 then
        redis.call('HDEL', key, summed[1])
      end
    end
    for from = 1, #summed > 1 and #summed or 0, MAX_NAMED do
      local last, kept, gone = math.min(from + MAX_NAMED - 1, #summed), {}, {}
      for n, before in ipairs(redis.call('HMGET', key, unpack(summed, from, last))) do
        local gate_id = summed[from + n - 1]
        local sum = tonumber(before or 0) + sum_more[gate_id]
        if sum == 0 then gone[#gone + 1] = gate_id
        elseif sum_more[gate_id] ~= 0 then lists.add_pair(kept, gate_id, text_of(sum)) end
      end
      lists.call('HSET', key, kept)
      lists.call('HDEL', key, gone)
    end
    summed, sum_more = {}, {}
  end

  local function add_to_handed_over(gate_id, more)
    if more ~= 0 and redis.call('HINCRBY', tag .. 'handed_over_charges', gate_id, text_of(more)) == 0 then
      redis.call('HDEL', tag .. 'handed_over_charges', gate_id)
    end
  end

  -- Returns the sum of the running jobs' charges that count against the limit.
  local function running_at(gate_id)
    local sum = tonumber(redis.call('HGET', tag .. 'charge_sums', gate_id) or 0) + (sum_more[gate_id] or 0)
    local limits = constraints.limits_of(gate_id)
    if not (limits and limits.is_awaiting_free) then return sum end
    return sum - tonumber(redis.call('HGET', tag .. 'handed_over_charges', gate_id) or 0)
  end

  -- Returns the sum of the charges of the starts within the gate's period, and the value of `needed:{gate}` (see
  -- kept_room.lua). A call reads a limited number of expired starts. If there are more, these still count, and
  -- `gate.has_more_expired` is set.
  local function within_period(gate)
    local sums = redis.call('MGET', tag .. 'started:' .. gate.id, tag .. 'needed:' .. gate.id)
    local sum = 0
    local expired = redis.call('ZRANGEBYSCORE', tag .. 'starts:' .. gate.id, '-inf',
      '(' .. text_of(gate.now_ms - gate.period_ms), 'LIMIT', 0, expired_to_read + 1)
    gate.has_more_expired = #expired > expired_to_read
    if gate.has_more_expired then expired[#expired] = nil end
    for _, entry in ipairs(expired) do sum = sum + charge_of(entry) end
    expired_to_read = expired_to_read - #expired
    gate.expired, gate.unexpired_sum = #expired, tonumber(sums[1] or 0) - sum
    if #expired > 0 then with_expired[#with_expired + 1] = gate end
    return gate.unexpired_sum, sums[2]
  end

  -- Removes the expired starts of one gate that this call has read, so that no start is read twice.
  local function forget_expired_at(gate)
    if gate.expired == 0 then return end
    redis.call('ZREMRANGEBYRANK', tag .. 'starts:' .. gate.id, 0, gate.expired - 1)
    gate.expired = 0
    -- Remove the sum together with the last starts.
    if redis.call('EXISTS', tag .. 'starts:' .. gate.id) == 0 then
      redis.call('DEL', tag .. 'started:' .. gate.id)
    else
      redis.call('SET', tag .. 'started:' .. gate.id, text_of(gate.unexpired_sum), 'KEEPTTL')
    end
  end

  -- Removes the expired starts that this call has read at all gates. Otherwise the next call would read the same starts
  -- again, and make no progress.
  local function forget_expired()
    for _, gate in ipairs(with_expired) do forget_expired_at(gate) end
    with_expired = {}
  end

  -- Adds to the sum of the starts that a gate remembers. The sum expires together with the starts.
  local function add_to_started(gate_id, more)
    if more == 0 then return end
    local key = tag .. 'started:' .. gate_id
    started[gate_id] = (started[gate_id] or tonumber(redis.call('GET', key) or 0)) + more
    redis.call('SET', key, text_of(started[gate_id]), 'KEEPTTL')
  end

  -- Adds charges of claims. The caller calls `write_sums` afterwards.
  --   entries     alternates job IDs and entries
  --   sum         the sum of the charges of these entries
  --   begun       alternates times and entries of starts that are new to the gate
  --   begun_sum   the sum of the charges of these starts
  local function take(gate, entries, sum, begun, begun_sum)
    redis.call('HSET', tag .. 'charges:' .. gate.id, unpack(entries))
    add_to_sum(gate.id, sum)
    if begun and #begun > 0 then
      local key, sum_key = tag .. 'starts:' .. gate.id, tag .. 'started:' .. gate.id
      -- Remove only the starts that this call has read, because the sum still includes all others.
      if gate.expired > 0 then redis.call('ZREMRANGEBYRANK', key, 0, gate.expired - 1) end
      gate.expired = 0
      redis.call('ZADD', key, unpack(begun))
      -- Let both keys expire in the same millisecond.
      redis.call('PEXPIRE', key, gate.period_ms + 1000)
      redis.call('SET', sum_key, text_of(gate.unexpired_sum + begun_sum), 'PX', gate.period_ms + 1000)
    end
  end

  -- Returns the sum of the charges of claims since `from_ms`, as far as the gate remembers their starts. Without a
  -- weight, each start counts as one unit. With a weight, adds up at most MAX_SINCE starts. A moved start counts at the
  -- time of its claim.
  local function started_since(gate_id, from_ms)
    local key, from, limits = tag .. 'starts:' .. gate_id, text_of(from_ms), constraints.limits_of(gate_id)
    local has_weight = limits and limits.weight_default
    local sum = has_weight and 0 or 1000 * redis.call('ZCOUNT', key, from, '+inf')
    for _, entry in ipairs(redis.call('ZRANGEBYSCORE', key, from, '+inf', 'LIMIT', 0, MAX_SINCE)) do
      local is_earlier = (claimed_before(entry) or from_ms) < from_ms
      if has_weight and not is_earlier then sum = sum + charge_of(entry) end
      if is_earlier and not has_weight then sum = sum - 1000 end
    end
    return sum
  end

  -- Removes starts of claims whose jobs never started. Returns whether there were any.
  local function forget_starts(gate_id, entries)
    local sum, has_any = 0, false
    for _, entry in ipairs(entries) do
      if redis.call('ZREM', tag .. 'starts:' .. gate_id, entry) == 1 then
        sum, has_any = sum + charge_of(entry), true
      end
    end
    add_to_started(gate_id, -sum)
    return has_any
  end

  -- Returns the sum of the charges of the jobs among these that were handed over to another system.
  local function handed_over_sum(gate_id, ids, entries)
    local sum = 0
    for n, is_listed in ipairs(redis.call('SMISMEMBER', tag .. 'handed_over:' .. gate_id, unpack(ids))) do
      if is_listed == 1 and entries[n] then sum = sum + charge_of(entries[n]) end
    end
    return sum
  end

  -- Gives back the charges of jobs whose claims ended. The caller calls `write_sums` afterwards. `unstarted`: the
  -- tokens of claims that never started, as a set (nil: none). Returns whether the gate may have more room than before.
  -- Call this function before the slots are given back.
  local function give_back(gate_id, ids, unstarted)
    local key, sum, count, never_began = tag .. 'charges:' .. gate_id, 0, 0, nil
    for from = 1, #ids, MAX_NAMED do
      local some = #ids <= MAX_NAMED and ids or {unpack(ids, from, math.min(from + MAX_NAMED - 1, #ids))}
      local entries = redis.call('HMGET', key, unpack(some))
      for n = 1, #entries do
        local entry = entries[n]
        if entry then
          sum = sum + charge_of(entry)
          if unstarted and unstarted[sub(entry, 1, TOKEN_LENGTH)] then
            never_began = never_began or {}
            never_began[#never_began + 1] = entry
          end
        end
      end
      if handed_over.is_used() then add_to_handed_over(gate_id, -handed_over_sum(gate_id, some, entries)) end
      count = count + redis.call('HDEL', key, unpack(some))
    end
    if count == 0 then return false end
    add_to_sum(gate_id, -sum)
    local limits = constraints.limits_of(gate_id)
    local has_fewer_starts = never_began and forget_starts(gate_id, never_began)
    return has_fewer_starts or lowered[gate_id] or not limits or limits.tracks_slots
  end

  -- Marks a job as handed over to another system. The job keeps its charge.
  local function hand_over(gate_id, id)
    local entry = entry_at(gate_id, id)
    if entry then add_to_handed_over(gate_id, charge_of(entry)) end
  end

  local function unit_of(gate_id)
    local cid = gate_ids.constraint_of(gate_id)
    if units[cid] == nil then units[cid] = redis.call('HGET', tag .. 'limits:' .. cid, 'unit') end
    return units[cid]
  end

  -- Reads the text of an observation. Returns its first three numbers, and the text after the first number; nil: there
  -- is no observation. Its numbers:
  -- 1. how much another system still admits
  -- 2. until when this holds
  -- 3. since when starts are subtracted from it
  -- 4. when it was observed (masters of older releases did not write this number)
  local function read_observed(text)
    local left, times, until_ms, since_ms = string.match(text or '', '^(-?%d+)(( %d+)( %d+)[ %d]*)$')
    if not left then return nil end
    return tonumber(left), tonumber(until_ms), tonumber(since_ms), times
  end

  -- Corrects how much another system still admits. `more`: the amount by which the use of an attempt exceeded its
  -- charge.
  local function settle_observed(gate_id, begun_ms, more)
    if has_observed == nil then has_observed = redis.call('EXISTS', tag .. 'observed') == 1 end
    local stored = has_observed and redis.call('HGET', tag .. 'observed', gate_id)
    local left, _, since_ms, times = read_observed(stored)
    -- Skip starts before the observation, because the other system may have counted them already.
    if left and begun_ms >= since_ms then
      redis.call('HSET', tag .. 'observed', gate_id, text_of(left - more) .. times)
    end
  end

  -- Prolongs the life of a gate's starts until a start at `at_ms` has left the window. Returns the new life in
  -- milliseconds.
  local function keep_until(gate_id, at_ms, period_ms, now_ms)
    local key, left_ms = tag .. 'starts:' .. gate_id, at_ms - now_ms + period_ms + 1000
    local kept_ms = redis.call('PTTL', key)
    if kept_ms >= left_ms then return kept_ms end
    redis.call('PEXPIRE', key, left_ms)
    return left_ms
  end

  -- Returns three values about a start:
  -- 1. its time in the window; nil: it has left the window
  -- 2. the time at which the window should count it; nil: not at all
  -- 3. the length of the window
  -- The window counts a start from its claim on. The other system counts it from the call on, which may be much later
  -- on a busy machine.
  local function instants_of(gate_id, entry, called_ms, now_ms)
    local limits = constraints.limits_of(gate_id)
    if not (limits and limits.tracks_starts) then return nil end
    local period_ms = constraints.limits_at(gate_id, limits).rate_period_ms
    local begun_ms = tonumber(redis.call('ZSCORE', tag .. 'starts:' .. gate_id, entry) or nil)
    if begun_ms then return begun_ms, math.max(begun_ms, period_ms and called_ms or 0), period_ms end
    if period_ms and called_ms > now_ms - period_ms then return nil, called_ms, period_ms end
    return nil
  end

  -- At a gate without a weight, moves a start from the time of the claim to the time of the attempt's call.
  local function date(gate_id, token_bytes, called_ms, now_ms)
    local begun_ms, at_ms, period_ms = instants_of(gate_id, token_bytes, called_ms, now_ms)
    if not at_ms or at_ms == begun_ms then return end
    local key = tag .. 'starts:' .. gate_id
    redis.call('ZADD', key, at_ms, moved(token_bytes, begun_ms or now_ms - period_ms))
    if begun_ms then redis.call('ZREM', key, token_bytes) end
    keep_until(gate_id, at_ms, period_ms, now_ms)
  end

  -- In the window of one gate, replaces the charge of an attempt with the amount that the attempt has used. The new
  -- charge counts from the attempt's last call on.
  local function settle(gate_id, entry, used, called_ms, now_ms)
    local before = charge_of(entry)
    local charge = used[unit_of(gate_id) or ''] or before
    local begun_ms, at_ms, period_ms = instants_of(gate_id, entry, called_ms, now_ms)
    if not at_ms or charge == before and at_ms == begun_ms then return end
    local key, after = tag .. 'starts:' .. gate_id, entry_of(sub(entry, 1, TOKEN_LENGTH), charge)
    -- If the start had left the window and now returns to it, its claim was before the window.
    local claimed_ms = begun_ms or now_ms - period_ms
    if at_ms ~= begun_ms then after = moved(after, claimed_ms) end
    -- Add before removing, because an empty key would lose its time to live.
    redis.call('ZADD', key, at_ms, after)
    if begun_ms then redis.call('ZREM', key, entry) end
    add_to_started(gate_id, begun_ms and charge - before or charge)
    if at_ms ~= begun_ms then
      -- Let both keys expire in the same millisecond. The sum may be new even if `starts` is not.
      redis.call('PEXPIRE', tag .. 'started:' .. gate_id, keep_until(gate_id, at_ms, period_ms, now_ms))
    end
    if charge == before then return end
    settle_observed(gate_id, claimed_ms, charge - before)
    if begun_ms and charge < before then lowered[gate_id] = true end
  end

  local function settle_one(gate_id, id, token_bytes, used, called_ms, now_ms)
    local entry = gate_ids.may_have_charges(gate_id) and entry_at(gate_id, id)
    if entry then settle(gate_id, entry, used, called_ms, now_ms)
    elseif called_ms > 0 then date(gate_id, token_bytes, called_ms, now_ms) end
  end

  -- Settles the charges of an attempt at all of its gates. A damaged gate keeps its estimate, and does not stop the
  -- others from being settled. `report`: the time of the attempt's last call (0: unknown), and by unit the number of
  -- thousandths that the attempt used.
  local function settle_at(id, token_bytes, report, now_ms, ...)
    local called_ms, used = math.min(report[1], now_ms), report[2]
    for _, ids in ipairs({...}) do
      for _, gate_id in ipairs(ids) do
        lists.alone(settle_one, gate_id, id, token_bytes, used, called_ms, now_ms)
      end
    end
  end

  return {
    charge_of = charge_of, entry_of = entry_of, entry_at = entry_at, is_remembered = is_remembered,
    running_at = running_at, write_sums = write_sums, within_period = within_period,
    forget_expired = forget_expired, take = take, give_back = give_back, started_since = started_since,
    read_observed = read_observed, hand_over = hand_over, settle_at = settle_at,
  }
end)
