#!lua flags=allow-oom
-- Notes that the jobs of idempotency keys were accepted: a repeat makes no other, also when that one is gone.
-- KEYS
-- ARGV idempotency_prefix mark [+ key_digest]
-- REPLY ok
-- CHECKS FIRST of each key that it still stands for a job, and for one that is not marked
local prefix, mark = ARGV[1], ARGV[2]
local FIRST = 3

for i = FIRST, #ARGV do
  local key = prefix .. ARGV[i]
  if redis.call('STRLEN', key) == 44 then redis.call('APPEND', key, mark) end
end
return {'ok'}
