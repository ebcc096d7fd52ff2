#!lua flags=allow-oom
-- Reads the jobs that were claimed for a poll:
-- * A poll without jobs keeps waiting, or ends if `ends` is set.
-- * A poll ends if the worker has opened a newer one.
-- * If the jobs of a poll have gone back to their queues, the poll is opened again, so that other jobs are claimed for
--   it.
-- KEYS worker:hash mail:string epoch:string
-- ARGV now_ms worker_id worker_id_bytes poll_id
--   call_id(empty: any call)
--   ends(1: end the poll even without jobs)
--   wait_ms job_prefix
--   wake_channel(empty: wake nobody)
-- REPLY mail:now_ms,epoch,is_draining,[id record]
--   | open:now_ms,epoch,is_draining
--   | reopened:now_ms,epoch,is_draining
--   | over | unknown | detached
-- CHECKS FIRST that the worker is registered; that the poll is the worker's newest
-- include lib/clock.lua
-- include lib/jobs/mail.lua
local worker_key, mail_key, epoch_key = KEYS[1], KEYS[2], KEYS[3]
local now_ms, worker_id, worker_id_bytes = clock.now_ms(ARGV[1]), ARGV[2], ARGV[3]
local poll_id, call_id, ends, wait_ms = ARGV[4], ARGV[5], ARGV[6] == '1', tonumber(ARGV[7])
local job_prefix, wake_channel = ARGV[8], ARGV[9]

local worker = redis.call('HMGET', worker_key, 'url', 'is_draining', 'is_detached', 'poll_id', 'poll_call',
  'poll_until_ms')
if not worker[1] then return {'unknown'} end
if worker[4] ~= poll_id then return {'over'} end
local epoch, is_draining = redis.call('GET', epoch_key) or '', tonumber(worker[2])
local offers = mail.offers(mail_key, worker_id_bytes, now_ms, job_prefix)
if #offers > 0 then
  redis.call('HSET', worker_key, 'poll_is_told', 1)
  return {'mail', now_ms, epoch, is_draining, offers}
end
local is_detached = worker[3] == '1'
-- Close the poll only for its last call. The client may have repeated the poll in a later call, which still waits.
local is_last_call = call_id == '' or not worker[5] or worker[5] == call_id
if is_detached or (ends and is_last_call) then redis.call('HSET', worker_key, 'poll_until_ms', 0) end
if is_detached then return {'detached'} end
if not ends and worker[6] == '0' then
  redis.call('HSET', worker_key, 'poll_until_ms', string.format('%.0f', now_ms + wait_ms), 'poll_is_told', 0)
  if wake_channel ~= '' then redis.call('PUBLISH', wake_channel, 'polls:' .. worker_id .. ':' .. wait_ms) end
  return {'reopened', now_ms, epoch, is_draining}
end
return {'open', now_ms, epoch, is_draining}
