#!lua flags=allow-oom
-- Writes down how far an action on many jobs came, and tells whether somebody wishes its end. One that is over is kept for a while, without the IDs that it was given.
-- KEYS epoch:string running_actions:set action:hash audit:stream
-- ARGV now_ms epoch action_id progress audit_entry(empty: it goes on) audit_max keep_ms
-- REPLY ok:canceled_by(empty: nobody) | stale_epoch | over
-- CHECKS FIRST the epoch; that the action is under way
-- include lib/time.lua
-- include lib/epoch.lua
local epoch_key, running_key, action_key, audit_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local now_ms, epoch, id, progress, audit_entry, audit_max, keep_ms = time_ms(ARGV[1]), ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]

if not leads(epoch_key, epoch) then return {'stale_epoch'} end
if redis.call('SISMEMBER', running_key, id) == 0 then return {'over'} end
redis.call('HSET', action_key, 'progress', progress)
if audit_entry ~= '' then
  redis.call('SREM', running_key, id)
  redis.call('HDEL', action_key, 'ids')
  redis.call('PEXPIRE', action_key, keep_ms)
  redis.call('XADD', audit_key, 'MAXLEN', '~', audit_max, '*', 'at_ms', string.format('%.0f', now_ms), 'entry', audit_entry)
end
return {'ok', redis.call('HGET', action_key, 'canceled_by') or ''}
