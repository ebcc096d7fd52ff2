#!lua flags=allow-oom
-- Confirms the start of jobs whose handlers wait for this confirmation. Confirms a start only if the worker holds the
-- claim and the lease is not over.
-- KEYS running:zset worker:hash
-- ARGV now_ms worker_id_bytes job_prefix [+ id token_bytes]
-- REPLY ok:[1: confirmed, 0: stale] | unknown
-- CHECKS FIRST that the worker is registered;
--   that each job is running under its token at this worker, and its lease is not over
-- include lib/clock.lua
-- include lib/jobs/record.lua
local running_key, worker_key = KEYS[1], KEYS[2]
local now_ms, worker_id_bytes, job_prefix = clock.now_ms(ARGV[1]), ARGV[2], ARGV[3]
local FIRST, WIDTH = 4, 2

if redis.call('EXISTS', worker_key) == 0 then return {'unknown'} end
local confirmed = {}
for i = FIRST, #ARGV, WIDTH do
  local id, token_bytes = ARGV[i], ARGV[i + 1]
  local key = job_prefix .. id
  local head = record.beginning(key, layout.worker_id.last)
  local lease_end = redis.call('ZSCORE', running_key, id)
  local is_held = record.is_held_by(head, token_bytes, worker_id_bytes)
  -- Accept no start after the end of the lease, because the leader may give the job to another worker at any moment.
  if is_held and lease_end and tonumber(lease_end) > now_ms then
    local flags = record.flags_of(head)
    if not record.has_flag(flags, layout.FLAG.confirmed) then flags = flags + layout.FLAG.confirmed end
    record.set_flags(key, flags)
    confirmed[#confirmed + 1] = 1
  else
    confirmed[#confirmed + 1] = 0
  end
end
return {'ok', confirmed}
