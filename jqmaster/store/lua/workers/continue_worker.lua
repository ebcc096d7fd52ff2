#!lua flags=allow-oom
-- Lets a worker continue, as it requested, after it was detached for its silence. Adds an entry to the history of each
-- job that continues.
-- KEYS worker:hash running:zset
-- ARGV now_ms worker_id_bytes tag
--   is_last(1: no other call of this request follows)
--   wake_channel(empty: wake nobody)
--   [+ id token_bytes history_entry]
-- REPLY ok | refused
-- CHECKS FIRST that the worker was detached only for its silence; that it still holds each claim
-- include lib/clock.lua
-- include lib/jobs/record.lua
-- include lib/jobs/history.lua
local worker_key, running_key = KEYS[1], KEYS[2]
local now_ms, worker_id_bytes, tag, is_last, wake_channel = clock.now_ms(ARGV[1]), ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local FIRST, WIDTH = 6, 3

local worker = redis.call('HMGET', worker_key, 'max_jobs', 'is_detached', 'detached_by')
if not worker[1] or worker[2] ~= '1' or worker[3] ~= 'silence' then return {'refused'} end
for i = FIRST, #ARGV, WIDTH do
  local id, token_bytes, entry = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local head = record.beginning(tag .. 'job:' .. id, layout.worker_id.last)
  if record.is_held_by(head, token_bytes, worker_id_bytes) and redis.call('ZSCORE', running_key, id) then
    history.add(tag .. 'history:' .. id, now_ms, entry)
    history.trim(tag .. 'history:' .. id)
  end
end
if is_last == '1' then
  redis.call('HSET', worker_key, 'is_detached', 0)
  redis.call('HDEL', worker_key, 'detached_by', 'silent_since_ms')
  if wake_channel ~= '' then redis.call('PUBLISH', wake_channel, 'workers') end
end
return {'ok'}
