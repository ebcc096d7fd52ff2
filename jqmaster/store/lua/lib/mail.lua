-- What the newest poll of a worker that pulls was given: pieces of job ID and token, in one string that the end of the
-- offers takes away. Needs record.lua.
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
    local record = redis.pcall('GET', job_prefix .. id)
    if type(record) == 'string' and #record >= HEAD_LENGTH and string.byte(record, 2) == STATE.running
      and string.sub(record, 57, 72) == token_bytes and string.sub(record, 73, 88) == worker_id_bytes
      and not has_flag(string.byte(record, 3), FLAG_CONFIRMED) and int64(record, 41) >= now_ms then
      offers[#offers + 1] = id
      offers[#offers + 1] = record
    end
  end
  return offers
end

-- Mail is a string, or was damaged: then the leases tell.
local function read_mail(mail_key)
  local mail = redis.pcall('GET', mail_key)
  return type(mail) == 'string' and mail or nil
end
