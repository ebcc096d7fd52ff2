#!lua flags=allow-oom
-- Notes that the job of an Idempotency-Key was accepted: a repeat makes no other, also when that one is gone.
-- KEYS idempotency:string
-- ARGV mark
-- REPLY ok | gone
-- CHECKS FIRST that the key still stands for a job, and for one that is not marked
local key = KEYS[1]
local mark = ARGV[1]

local length = redis.call('STRLEN', key)
if length == 0 then return {'gone'} end
if length == 44 then redis.call('APPEND', key, mark) end
return {'ok'}
