#!lua flags=allow-oom
-- Records how far each audit log has been exported.
-- KEYS epoch:string audit_export:hash
-- ARGV epoch [+ log position_and_number(of the last exported entry)]
-- REPLY ok | stale_epoch
-- CHECKS FIRST that the epoch is current
-- include lib/leadership.lua
local epoch_key, export_key = KEYS[1], KEYS[2]
local epoch = ARGV[1]
local FIRST, WIDTH = 2, 2

if not leadership.holds(epoch_key, epoch) then return {'stale_epoch'} end
for at = FIRST, #ARGV, WIDTH do redis.call('HSET', export_key, ARGV[at], ARGV[at + 1]) end
return {'ok'}
