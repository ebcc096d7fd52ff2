#!lua flags=allow-oom
-- Reads the jobs that were claimed for a poll. A poll without jobs keeps waiting or ends. It also ends if the worker
-- has opened a newer poll.
-- KEYS worker:hash mail:string epoch:string
-- ARGV now_ms worker_id_bytes poll_id ends(1: end the poll even without jobs) job_prefix
-- REPLY mail:now_ms,epoch,is_draining,[id record] | open:now_ms,epoch,is_draining | over | unknown | detached
-- CHECKS FIRST that the worker is registered, and that the poll is its newest
-- include lib/clock.lua
-- include lib/jobs/mail.lua
local worker_key, mail_key, epoch_key = KEYS[1], KEYS[2], KEYS[3]
local now_ms, worker_id_bytes, poll_id, ends, job_prefix = clock.now_ms(ARGV[1]), ARGV[2], ARGV[3], ARGV[4], ARGV[5]

local worker = redis.call('HMGET', worker_key, 'url', 'is_draining', 'is_detached', 'poll_id')
if not worker[1] then return {'unknown'} end
if worker[4] ~= poll_id then return {'over'} end
local epoch, is_draining = redis.call('GET', epoch_key) or '', tonumber(worker[2])
local offers = mail.offers(mail_key, worker_id_bytes, now_ms, job_prefix)
if #offers > 0 then
  redis.call('HSET', worker_key, 'poll_is_told', 1)
  return {'mail', now_ms, epoch, is_draining, offers}
end
if ends == '1' or worker[3] == '1' then redis.call('HSET', worker_key, 'poll_until_ms', 0) end
if worker[3] == '1' then return {'detached'} end
return {'open', now_ms, epoch, is_draining}
