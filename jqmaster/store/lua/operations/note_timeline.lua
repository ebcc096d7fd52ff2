#!lua flags=allow-oom
-- Adds entries to the timeline for the leader, and replaces the marks of the timeline. Works in a full store, too,
-- because the timeline shows people what went wrong.
-- KEYS epoch:string timeline:stream timeline_marks:string
-- ARGV epoch
--   timeline_max(about how many entries are kept)
--   marks(MessagePack)
--   [+ entry(MessagePack)]
-- REPLY ok | stale_epoch
-- CHECKS FIRST that the epoch is current
-- include lib/leadership.lua
local epoch_key, timeline_key, marks_key = KEYS[1], KEYS[2], KEYS[3]
local epoch, timeline_max, marks = ARGV[1], ARGV[2], ARGV[3]
local FIRST = 4

if not leadership.holds(epoch_key, epoch) then return {'stale_epoch'} end
for i = FIRST, #ARGV do
  local entry = ARGV[i]
  redis.call('XADD', timeline_key, 'MAXLEN', '~', timeline_max, '*', 'entry', entry)
end
redis.call('SET', marks_key, marks)
return {'ok'}
