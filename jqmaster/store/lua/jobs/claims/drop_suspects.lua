#!lua flags=allow-oom
-- Removes jobs from the list of suspects if they no longer wait. A suspect waits for a worker without any other job.
-- KEYS epoch:string suspects:set
-- ARGV epoch job_prefix [+ id]
-- REPLY ok:number of removed jobs | stale_epoch
-- CHECKS FIRST that the epoch is current, then the state of each job
-- include lib/leadership.lua
-- include lib/jobs/record.lua
-- include lib/lists.lua
local epoch_key, suspects_key = KEYS[1], KEYS[2]
local epoch, job_prefix = ARGV[1], ARGV[2]
local FIRST = 3

if not leadership.holds(epoch_key, epoch) then return {'stale_epoch'} end
local over = {}
for i = FIRST, #ARGV do
  if record.state_of(record.beginning(job_prefix .. ARGV[i], layout.state.last)) ~= layout.STATE.retrying then
    over[#over + 1] = ARGV[i]
  end
end
return {'ok', lists.call('SREM', suspects_key, over)}
