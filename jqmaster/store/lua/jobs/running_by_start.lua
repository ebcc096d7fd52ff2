#!lua flags=no-writes
-- Returns the first running jobs after a position, ordered by the start of their attempts. Reads only a range of ranks
-- in the index of running jobs, which is ordered by the ends of leases.
-- KEYS running:zset
-- ARGV after_ms(empty: from the start) after_id
--   count(maximum number of jobs to return)
--   from_rank most(maximum number of members to read)
--   job_prefix is_backward(1: the newest first)
-- REPLY ok:[id started_ms],number of members read
-- CHECKS FIRST nothing, because it only reads
-- include lib/jobs/record.lua
local running_key = KEYS[1]
local after_ms, after_id, count = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3])
local from_rank, most, job_prefix, is_backward = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6], ARGV[7] == '1'

local function comes_before(ms, id, other_ms, other_id)
  if is_backward then ms, id, other_ms, other_id = other_ms, other_id, ms, id end
  return ms < other_ms or (ms == other_ms and id < other_id)
end

local ids = redis.call('ZRANGE', running_key, from_rank, from_rank + most - 1)
local started = {}
for _, id in ipairs(ids) do
  local head = record.beginning(job_prefix .. id, layout.started_at_ms.last)
  if #head == layout.started_at_ms.last then
    local ms = record.int64(head, layout.started_at_ms.at)
    if not after_ms or comes_before(after_ms, after_id, ms, id) then started[#started + 1] = {ms, id} end
  end
end
table.sort(started, function(a, b) return comes_before(a[1], a[2], b[1], b[2]) end)
local found = {}
for i = 1, math.min(count, #started) do
  found[#found + 1] = started[i][2]
  found[#found + 1] = started[i][1]
end
return {'ok', found, #ids}
