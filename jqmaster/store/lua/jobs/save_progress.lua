#!lua flags=allow-oom
-- Stores the progress of running jobs, and checkpoints for their next attempts. Losses of a job before a checkpoint no
-- longer count. A report that was delayed at a master does not replace a later report of the same claim.
-- KEYS
-- ARGV now_ms tag worker_id_bytes
--   [+ id token_bytes
--      has_progress(0: keep the present one)
--      fraction(empty: unknown)
--      message
--      checkpoint(empty: keep the present one)
--      seq(number of the report; empty: unknown)]
-- REPLY ok:
--     [index from 0 of each stale claim],
--     [index of each report that is older than the stored report]
-- CHECKS FIRST that each job is running under its token at this worker; that no later report of the claim is stored
-- include lib/clock.lua
-- include lib/jobs/record.lua
-- include lib/lists.lua
local now_ms, tag, worker_id_bytes = clock.now_ms(ARGV[1]), ARGV[2], ARGV[3]
local FIRST, WIDTH = 4, 7

-- Returns whether a later report of this claim is stored. Each claim numbers its own reports.
local function is_outdated(progress_key, token_bytes, seq)
  local stored = redis.pcall('HMGET', progress_key, 'token', 'seq')
  return not stored.err and stored[1] == token_bytes and (tonumber(stored[2] or 0) or 0) > tonumber(seq)
end

local stale, outdated = {}, {}
for i = FIRST, #ARGV, WIDTH do
  local id, token_bytes, has_progress, fraction, message, checkpoint, seq = unpack(ARGV, i, i + WIDTH - 1)
  local job_key, progress_key = tag .. 'job:' .. id, tag .. 'progress:' .. id
  local head = record.beginning(job_key, layout.worker_id.last)
  if not record.is_held_by(head, token_bytes, worker_id_bytes) then
    stale[#stale + 1] = (i - FIRST) / WIDTH
  elseif seq ~= '' and is_outdated(progress_key, token_bytes, seq) then
    outdated[#outdated + 1] = (i - FIRST) / WIDTH
  else
    local fields = {}
    if has_progress == '1' then
      fields = {'fraction', fraction, 'message', message, 'at_ms', string.format('%.0f', now_ms)}
    end
    if checkpoint ~= '' then
      lists.add_pair(fields, 'checkpoint', checkpoint)
      -- Only losses after the last checkpoint count towards the limit.
      local _, _, losses = record.attempts_of(head)
      if losses > 0 then redis.call('SETRANGE', job_key, layout.losses.offset, '\0\0') end
    end
    if seq ~= '' then
      lists.add_pair(fields, 'token', token_bytes)
      lists.add_pair(fields, 'seq', seq)
    end
    -- Replace a key of another type, which is damaged. An error in the middle of the call would skip the other jobs.
    if #fields > 0 and type(redis.pcall('HSET', progress_key, unpack(fields))) == 'table' then
      redis.call('UNLINK', progress_key)
      redis.call('HSET', progress_key, unpack(fields))
    end
    local flags = record.flags_of(head)
    if not record.has_flag(flags, layout.FLAG.has_progress) then
      record.set_flags(job_key, flags + layout.FLAG.has_progress)
    end
  end
end
return {'ok', stale, outdated}
