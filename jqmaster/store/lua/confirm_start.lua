#!lua flags=allow-oom
-- Lets handlers start that asked first: yes only while the claim is the worker's.
-- KEYS
-- ARGV worker_id_bytes job_prefix [+ id token_bytes]
-- REPLY ok:[1 confirmed, 0 stale]
-- CHECKS FIRST state, token and worker of each
-- include lib/record.lua
local worker_id_bytes, job_prefix = ARGV[1], ARGV[2]
local FIRST, WIDTH = 3, 2

local confirmed = {}
for i = FIRST, #ARGV, WIDTH do
  local key = job_prefix .. ARGV[i]
  local head = beginning(key, 87)
  if #head == 88 and string.byte(head, 2) == STATE.running and string.sub(head, 57, 72) == ARGV[i + 1] and string.sub(head, 73, 88) == worker_id_bytes then
    local flags = string.byte(head, 3)
    if not has_flag(flags, FLAG_CONFIRMED) then flags = flags + FLAG_CONFIRMED end
    redis.call('SETRANGE', key, 2, string.char(flags))
    confirmed[#confirmed + 1] = 1
  else
    confirmed[#confirmed + 1] = 0
  end
end
return {'ok', confirmed}
