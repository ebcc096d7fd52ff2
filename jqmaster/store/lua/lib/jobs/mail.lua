-- include lib/lazily.lua
-- include lib/jobs/record.lua
-- The jobs that the newest poll of a pulling worker was given: pieces of job ID and token, in one string that expires
-- when the offers end.
local mail = lazily.made_by(function()
  local ID_LENGTH, TOKEN_LENGTH = 36, 16

  -- Answers the poll for a claim. `channel` is empty if the poll hangs at the very master that claims: then nobody need
  -- be told.
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

  -- Returns job ID and record of each job that is still an offer to this worker: neither over, nor taken up, nor
  -- anybody else's.
  local function offers(mail_key, worker_id_bytes, now_ms, job_prefix)
    local given = redis.pcall('GET', mail_key)
    -- A value that is not a string is damaged: then the leases decide.
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
