#!lua flags=allow-oom
-- Takes jobs off the list of those that wait for a worker to themselves, where they wait no more.
-- KEYS epoch:string suspects:set
-- ARGV epoch job_prefix [+ id]
-- REPLY ok:dropped | stale_epoch
-- CHECKS FIRST epoch, then the state of each
-- include lib/epoch.lua
-- include lib/record.lua
local epoch_key, suspects_key = KEYS[1], KEYS[2]
local epoch, job_prefix = ARGV[1], ARGV[2]
local FIRST = 3

if not leads(epoch_key, epoch) then return {'stale_epoch'} end
local over = {}
for i = FIRST, #ARGV do
  if string.byte(beginning(job_prefix .. ARGV[i], 1), 2) ~= STATE.retrying then over[#over + 1] = ARGV[i] end
end
return {'ok', each('SREM', suspects_key, over)}
