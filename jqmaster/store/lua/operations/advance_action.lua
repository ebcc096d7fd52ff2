#!lua flags=allow-oom
-- Stores the progress of an action on many jobs. Returns whether somebody has asked to cancel the action. A finished
-- action is kept for `keep_ms` without its list of IDs.
-- KEYS epoch:string running_actions:set action:hash audit:stream watched:set
-- ARGV now_ms epoch action_id progress
--   done(new value of the field `done`, in which masters of the previous release count; a lower value is not stored)
--   audit_entry(empty: the action is not finished)
--   audit_max keep_ms
--   [+ job_id(of a job that has ended and is counted in `progress`)]
-- REPLY ok:canceled_by(empty: nobody) | stale_epoch | over
-- CHECKS FIRST that the epoch is current; that the action is not over
-- include lib/clock.lua
-- include lib/leadership.lua
-- include lib/identity/audit_log.lua
local epoch_key, running_key, action_key, audit_key, watched_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local now_ms, epoch, id, progress, done = clock.now_ms(ARGV[1]), ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local audit_entry, audit_max, keep_ms = ARGV[6], ARGV[7], ARGV[8]
local FIRST = 9

if not leadership.holds(epoch_key, epoch) then return {'stale_epoch'} end
if redis.call('SISMEMBER', running_key, id) == 0 then return {'over'} end
redis.call('HSET', action_key, 'progress', progress)
if tonumber(done) > tonumber(redis.call('HGET', action_key, 'done') or 0) then
  redis.call('HSET', action_key, 'done', done)
end
for i = FIRST, #ARGV do redis.call('SREM', watched_key, ARGV[i]) end
if audit_entry ~= '' then
  redis.call('SREM', running_key, id)
  redis.call('HDEL', action_key, 'ids')
  redis.call('UNLINK', watched_key)
  redis.call('PEXPIRE', action_key, keep_ms)
  audit_log.write(audit_key, now_ms, audit_entry, audit_max)
end
return {'ok', redis.call('HGET', action_key, 'canceled_by') or ''}
