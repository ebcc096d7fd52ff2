#!lua
-- Ends closed groups of events. Writes the job of each group and the records of its events, and removes the group in
-- the same step. Skips a group that is gone. Skips a group if its definition has changed since the caller read it.
-- KEYS epoch:string rules:hash scheduled:zset expiring:zset definitions:hash definition_clocks:hash event_groups:zset
-- ARGV now_ms tag epoch
--   wake_channel(empty: wake nobody)
--   finished_channel edition
--   lanes(format: lib/lanes/homes.lua)
--   mark(expected mark of the data; empty: do not check)
--   max_runs(maximum number of run records to keep)
--   runs_life_ms(how long to keep them)
--   retry_ms(delay before a group is tried again if a backlog had no room for its job)
--   [+ group(MessagePack: a list of
--         ID, definition, ETag of the definition or empty if it is gone, overlap,
--         verdict: fires, skipped or gone,
--         reason, IDs of its events,
--         terms as in jobs/enqueue/enqueue.lua, digest, rest_of_record)]
-- REPLY ok:
--     the outcome of each group:
--       fired, overlap, superseded, skipped, gone, changed, backlog_full(the group stays),
--     [workers that ran a replaced job]
--   | stale_epoch | stale_constraints | other_data
-- CHECKS FIRST that the epoch is current;
--   that the mark of the data matches;
--   that the edition of the constraints is current;
--   that each group exists, and that its definition has not changed since the caller read it
-- include lib/clock.lua
-- include lib/leadership.lua
-- include lib/lanes/lane_writes.lua
-- include lib/events/event_jobs.lua
-- include lib/batches/batches.lua
-- include lib/definitions/run_records.lua
local epoch_key, rules_key, scheduled_key, expiring_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local definitions_key, clocks_key, groups_key = KEYS[5], KEYS[6], KEYS[7]
local now_ms, epoch, wake_channel, finished_channel = clock.now_ms(ARGV[1]), ARGV[3], ARGV[4], ARGV[5]
local tag = ARGV[2]
local edition, mark, retry_ms = ARGV[6], ARGV[8], tonumber(ARGV[11])

if not leadership.holds(epoch_key, epoch) then return {'stale_epoch'} end
local held = redis.call('HMGET', rules_key, 'edition', 'mark')
if mark ~= '' and held[2] ~= mark then return {'other_data'} end
if (held[1] or '0') ~= edition then return {'stale_constraints'} end

local groups, last_firing = {}, {}
for i = 12, #ARGV do
  local group = cmsgpack.unpack(ARGV[i])
  local etag = string.sub(redis.call('HGET', definitions_key, group[2]) or '', 1, layout.ETAG_LENGTH)
  if not redis.call('ZSCORE', groups_key, group[1]) then
    group[5] = 'gone'
  elseif etag ~= group[3] then
    group[5] = 'changed'
  end
  if group[5] == 'fires' then last_firing[group[2]] = #groups + 1 end
  groups[#groups + 1] = group
end

local status, now_text = {}, string.format('%.0f', now_ms)
for i, group in ipairs(groups) do
  local id, name, became, reason = group[1], group[2], group[5], group[6]
  local ended = 'skipped'
  if became == 'fires' then
    became = event_jobs.start(clocks_key, name, group[4], id, group[8], group[9], group[10], now_ms,
      last_firing[name] == i)
    if became == 'fired' then ended = 'fired' else reason = became end
  end
  status[i] = became
  if became == 'backlog_full' then
    redis.call('ZADD', groups_key, now_ms + retry_ms, id)
  elseif became ~= 'changed' then
    if became ~= 'gone' then
      for _, event_id in ipairs(group[7]) do
        run_records.add(name, now_text, ended, reason, ended == 'fired' and id or '', now_text, event_id)
      end
    end
    redis.call('ZREM', groups_key, id)
    redis.call('UNLINK', tag .. 'event_group:' .. id)
  end
end

event_jobs.write(clocks_key, scheduled_key, expiring_key)
local has_opened = lane_writes.write(nil)
batches.write(now_ms)
run_records.write_added(now_ms)
local freed_workers = event_jobs.tell(wake_channel, finished_channel)
if wake_channel ~= '' and has_opened then redis.call('PUBLISH', wake_channel, 'ready') end
return {'ok', status, freed_workers}
