#!lua flags=allow-oom
-- Saves what a worker reports on jobs that it runs: progress, and a checkpoint for the next attempt. After a
-- checkpoint, earlier losses of the job no longer count.
-- KEYS
-- ARGV now_ms tag worker_id_bytes [+ id token_bytes has_progress(1; 0: leave it) fraction(empty: unknown) message
--   checkpoint(empty: leave it)]
-- REPLY ok:[index from 0 of each claim that does not hold its job any more]
-- CHECKS FIRST state, token and worker of each claim
-- include lib/clock.lua
-- include lib/jobs/record.lua
local now_ms, tag, worker_id_bytes = clock.now_ms(ARGV[1]), ARGV[2], ARGV[3]
local FIRST, WIDTH = 4, 6

local stale = {}
for i = FIRST, #ARGV, WIDTH do
  local id, token_bytes, has_progress, fraction, message, checkpoint = unpack(ARGV, i, i + WIDTH - 1)
  local job_key, progress_key = tag .. 'job:' .. id, tag .. 'progress:' .. id
  local head = record.beginning(job_key, layout.worker_id.last)
  if record.is_held_by(head, token_bytes, worker_id_bytes) then
    local fields = {}
    if has_progress == '1' then
      fields = {'fraction', fraction, 'message', message, 'at_ms', string.format('%.0f', now_ms)}
    end
    if checkpoint ~= '' then
      fields[#fields + 1] = 'checkpoint'
      fields[#fields + 1] = checkpoint
      -- The job got on: losses count towards the limit only while nothing is saved between them.
      local _, _, losses = record.attempts_of(head)
      if losses > 0 then redis.call('SETRANGE', job_key, layout.losses.offset, '\0\0') end
    end
    -- A key of another type is damaged; an error in the middle of a batch would leave the others undone.
    if #fields > 0 and type(redis.pcall('HSET', progress_key, unpack(fields))) == 'table' then
      redis.call('UNLINK', progress_key)
      redis.call('HSET', progress_key, unpack(fields))
    end
    local flags = record.flags_of(head)
    if not record.has_flag(flags, layout.FLAG.has_progress) then
      record.set_flags(job_key, flags + layout.FLAG.has_progress)
    end
  else
    stale[#stale + 1] = (i - FIRST) / WIDTH
  end
end
return {'ok', stale}
