#!lua flags=allow-oom
-- Lets handlers start that asked first: yes only while the claim is the worker's and its lease is not over.
-- KEYS running:zset worker:hash
-- ARGV now_ms worker_id_bytes job_prefix [+ id token_bytes]
-- REPLY ok:[1 confirmed, 0 stale] | unknown
-- CHECKS FIRST that the worker is registered; then lease, state, token and worker of each
-- include lib/time.lua
-- include lib/record.lua
local running_key, worker_key = KEYS[1], KEYS[2]
local now_ms, worker_id_bytes, job_prefix = time_ms(ARGV[1]), ARGV[2], ARGV[3]
local FIRST, WIDTH = 4, 2

if redis.call('EXISTS', worker_key) == 0 then return {'unknown'} end
local confirmed = {}
for i = FIRST, #ARGV, WIDTH do
  local key = job_prefix .. ARGV[i]
  local head = beginning(key, 87)
  local lease_end = redis.call('ZSCORE', running_key, ARGV[i])
  local is_held = #head == 88 and string.byte(head, 2) == STATE.running and string.sub(head, 57, 72) == ARGV[i + 1]
    and string.sub(head, 73, 88) == worker_id_bytes
  -- From the end of its lease on, whoever looks next may give the job away.
  if is_held and lease_end and tonumber(lease_end) > now_ms then
    local flags = string.byte(head, 3)
    if not has_flag(flags, FLAG_CONFIRMED) then flags = flags + FLAG_CONFIRMED end
    redis.call('SETRANGE', key, 2, string.char(flags))
    confirmed[#confirmed + 1] = 1
  else
    confirmed[#confirmed + 1] = 0
  end
end
return {'ok', confirmed}
