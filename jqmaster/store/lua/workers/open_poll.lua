#!lua flags=allow-oom
-- Opens a poll of a worker that pulls, so that jobs may be claimed for it. A repeated poll gets the jobs that were
-- already claimed for the poll, so that a lost answer loses no job.
-- KEYS worker:hash mail:string epoch:string
-- ARGV now_ms worker_id worker_id_bytes poll_id call_id
--   max(maximum number of jobs) wait_ms(how long the poll waits)
--   job_prefix
--   wake_channel(empty: wake nobody)
-- REPLY mail:now_ms,epoch,is_draining,[id record]
--   | open:now_ms,epoch,is_draining
--   | unknown | detached | pushed
-- CHECKS FIRST that the worker is registered and pulls
-- include lib/clock.lua
-- include lib/jobs/mail.lua
local worker_key, mail_key, epoch_key = KEYS[1], KEYS[2], KEYS[3]
local now_ms, worker_id, worker_id_bytes, poll_id = clock.now_ms(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]
local call_id, max, wait_ms = ARGV[5], tonumber(ARGV[6]), tonumber(ARGV[7])
local job_prefix, wake_channel = ARGV[8], ARGV[9]

local worker = redis.call('HMGET', worker_key, 'url', 'is_draining', 'is_detached', 'poll_id', 'poll_is_told')
if not worker[1] then return {'unknown'} end
if worker[1] ~= '' then return {'pushed'} end
if worker[3] == '1' then return {'detached'} end
local epoch, is_draining = redis.call('GET', epoch_key) or '', tonumber(worker[2])
if worker[4] == poll_id or worker[5] ~= '1' then
  local offers = mail.offers(mail_key, worker_id_bytes, now_ms, job_prefix)
  if #offers > 0 then
    redis.call('HSET', worker_key, 'poll_id', poll_id, 'poll_until_ms', 0, 'poll_is_told', 1)
    return {'mail', now_ms, epoch, is_draining, offers}
  end
end
-- Delete the answer to the previous poll. It has arrived, because the worker polls again.
redis.call('UNLINK', mail_key)
redis.call('HSET', worker_key, 'poll_id', poll_id, 'poll_call', call_id, 'poll_max', max, 'poll_until_ms',
  string.format('%.0f', now_ms + wait_ms), 'poll_is_told', 0)
if wake_channel ~= '' then redis.call('PUBLISH', wake_channel, 'polls:' .. worker_id .. ':' .. wait_ms) end
return {'open', now_ms, epoch, is_draining}
