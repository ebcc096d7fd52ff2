-- include lib/jobs/record.lua
-- include lib/jobs/mail.lua
-- The shares of the workers for which one call claims, in the same order as the keys of the workers. A share is filled
-- before the next one.
local claim_shares = (function()
  local workers, max_bytes = ARGV.workers, tonumber(ARGV.max_bytes)
  local ID_LENGTH, WORKER_LENGTH, KEYS_EACH = 16, 21, 3
  -- `all`: the shares of all workers. `open`: the shares of workers that may take jobs. `limit`: how many jobs these
  -- workers may take together.
  local all, open, limit = {}, {}, 0
  -- The share that is being filled, and the numbers of jobs and bytes at which it is full. The bytes by which the last
  -- job of a share exceeds the share are taken from the shares that follow.
  local filling, full_at, full_at_bytes = 1, 0, max_bytes

  -- Sets `busy`, `limit`, `is_pulling` and `is_target` of a share. Returns why its worker may take no jobs; nil: it may
  -- take some.
  local function refusal_of(share, now_ms)
    -- Read without raising errors: a key of another type must not prevent other workers from getting jobs.
    local worker = redis.pcall('HMGET', share.worker_key, 'max_jobs', 'is_draining', 'is_detached', 'alone_with', 'url',
      'poll_until_ms', 'poll_max', 'target')
    local busy = redis.pcall('SCARD', share.claims_key)
    if worker.err or type(busy) ~= 'number' then return 'damaged' end
    share.is_pulling = worker[5] == ''
    if not worker[1] or worker[2] == '1' or worker[3] == '1' then return 'gone' end
    if share.is_pulling and tonumber(worker[6] or 0) <= now_ms then return 'no_poll' end
    local most = math.min(share.limit, tonumber(worker[1]) - busy)
    if share.is_pulling then most = math.min(most, tonumber(worker[7])) end
    -- A worker that runs a suspect gets no other job, because it may be lost like the suspect's earlier workers.
    if busy > 0 and worker[4] and redis.call('SISMEMBER', share.claims_key, worker[4]) == 1 then most = 0 end
    share.busy, share.limit, share.is_target = busy, most, worker[8]
    return most <= 0 and 'full' or nil
  end

  -- Reads the workers. For each worker in turn, `keys` has the keys of the worker, its claims and its mail. Returns how
  -- many jobs the workers may take together, and whether they deliver to a target. All workers of a call are of the
  -- same kind.
  local function read(keys, now_ms)
    for at = 1, #workers, WORKER_LENGTH do
      local key_at = 1 + (at - 1) / WORKER_LENGTH * KEYS_EACH
      local most, polls_here = struct.unpack('>I4B', workers, at + ID_LENGTH)
      local share = {id_bytes = string.sub(workers, at, at + ID_LENGTH - 1), limit = most, polls_here = polls_here == 1,
        worker_key = keys[key_at], claims_key = keys[key_at + 1], mail_key = keys[key_at + 2], busy = 0, count = 0}
      share.word = refusal_of(share, now_ms)
      all[#all + 1] = share
      if not share.word then
        open[#open + 1] = share
        limit = limit + share.limit
      end
    end
    if limit == 0 then return 0 end
    full_at = open[1].limit
    return limit, open[1].is_target
  end

  -- Returns whether the call may claim another job, and how many jobs it may claim in all. `count`, `bytes`: what it
  -- has claimed so far.
  local function has_room(count, bytes)
    while filling <= #open and (count >= full_at or bytes > full_at_bytes) do
      local share = open[filling]
      -- A share that has reached its limit of bytes gets no more jobs.
      local unused = math.max(0, full_at - count)
      share.count, limit, full_at = share.limit - unused, limit - unused, full_at - unused
      filling = filling + 1
      if filling <= #open then full_at, full_at_bytes = full_at + open[filling].limit, full_at_bytes + max_bytes end
    end
    return filling <= #open, limit
  end

  -- Returns the shares after `count` jobs with `bytes` bytes were claimed. The first `share.count` of these jobs belong
  -- to the first share, the next ones to the second share, and so on.
  local function filled(count, bytes)
    if has_room(count, bytes) then
      local share = open[filling]
      share.count = count - (full_at - share.limit)
    end
    return open
  end

  -- Gives each pulling worker's poll the jobs of the worker's share. `share.offers` alternates IDs and tokens.
  local function give(life_ms, mail_channel)
    for _, share in ipairs(open) do
      if share.is_pulling and share.count > 0 then
        mail.give(share.worker_key, share.mail_key, share.offers, life_ms, share.polls_here and '' or mail_channel,
          'mail:' .. record.uuid_text(share.id_bytes))
      end
    end
  end

  -- Returns a flat list with three elements for each worker: its word, its number of busy slots, and its number of
  -- claimed jobs.
  local function answers()
    local flat = {}
    for n, share in ipairs(all) do
      flat[3 * n - 2], flat[3 * n - 1], flat[3 * n] = share.word or 'ok', share.busy + share.count, share.count
    end
    return flat
  end

  return {read = read, has_room = has_room, filled = filled, give = give, answers = answers}
end)()
