-- include lib/lazily.lua
-- include lib/jobs/record.lua
-- The mail of a pulling worker: the jobs that were claimed for its newest poll. The mail is one string of job IDs and
-- tokens, and expires when the offers end.
local mail = lazily.made_by(function()
  local ID_LENGTH, TOKEN_LENGTH = 36, 16

  -- Stores the jobs of a claim as the answer to the worker's poll, and notifies the master that holds the poll.
  -- `channel`: empty if the claiming master itself holds the poll.
  local function give(worker_key, mail_key, pieces, life_ms, channel, message)
    redis.call('SET', mail_key, table.concat(pieces), 'PX', life_ms)
    redis.call('HSET', worker_key, 'poll_until_ms', 0, 'poll_is_told', channel == '' and 1 or 0)
    if channel ~= '' then redis.call('PUBLISH', channel, message) end
  end

  local function is_offer(job, token_bytes, worker_id_bytes, now_ms)
    return type(job) == 'string' and #job >= layout.head.length and record.is_held_by(job, token_bytes, worker_id_bytes)
      and not record.has_flag(record.flags_of(job), layout.FLAG.confirmed)
      and record.int64(job, layout.not_after_ms.at) >= now_ms
  end

  -- Returns the ID and the record of each job that is still offered to this worker. Leaves out a job if its offer has
  -- expired or was accepted, or if another claim has replaced the offer.
  local function offers(mail_key, worker_id_bytes, now_ms, job_prefix)
    local given = redis.pcall('GET', mail_key)
    -- Ignore a damaged value. The jobs return to their queues when their leases end.
    if type(given) ~= 'string' then return {} end
    local found = {}
    for at = 1, #given, ID_LENGTH + TOKEN_LENGTH do
      local id = string.sub(given, at, at + ID_LENGTH - 1)
      local token_bytes = string.sub(given, at + ID_LENGTH, at + ID_LENGTH + TOKEN_LENGTH - 1)
      local job = redis.pcall('GET', job_prefix .. id)
      if is_offer(job, token_bytes, worker_id_bytes, now_ms) then
        found[#found + 1] = id
        found[#found + 1] = job
      end
    end
    return found
  end

  return {give = give, offers = offers}
end)
