-- include lib/record.lua
-- What the newest poll of a worker that pulls was given: pieces of job ID and token, in one string that the end of the
-- offers takes away.
local MAIL_ID_LENGTH, MAIL_TOKEN_LENGTH = 36, 16

-- A claim answers the poll. `channel` is empty where that poll hangs at the very master that claims: then nobody need be told.
local function give_mail(worker_key, mail_key, mail, life_ms, channel, message)
  redis.call('SET', mail_key, table.concat(mail), 'PX', life_ms)
  redis.call('HSET', worker_key, 'poll_until_ms', 0, 'poll_is_told', channel == '' and 1 or 0)
  if channel ~= '' then redis.call('PUBLISH', channel, message) end
end

-- Of the mail what still is an offer to this worker, as job IDs and records: neither over, nor taken up, nor anybody else's.
local function offers_in(mail, worker_id_bytes, now_ms, job_prefix)
  local offers = {}
  for at = 1, #mail, MAIL_ID_LENGTH + MAIL_TOKEN_LENGTH do
    local id = string.sub(mail, at, at + MAIL_ID_LENGTH - 1)
    local token_bytes = string.sub(mail, at + MAIL_ID_LENGTH, at + MAIL_ID_LENGTH + MAIL_TOKEN_LENGTH - 1)
    local job = redis.pcall('GET', job_prefix .. id)
    if type(job) == 'string' and #job >= layout.head.length and record.is_held_by(job, token_bytes, worker_id_bytes)
      and not record.has_flag(record.flags_of(job), layout.FLAG.confirmed) and record.int64(job, layout.not_after_ms.at) >= now_ms then
      offers[#offers + 1] = id
      offers[#offers + 1] = job
    end
  end
  return offers
end

-- Mail is a string, or was damaged: then the leases tell.
local function read_mail(mail_key)
  local mail = redis.pcall('GET', mail_key)
  return type(mail) == 'string' and mail or nil
end
