#!lua flags=no-writes
-- Finds the jobs of a push whose uniqueness keys are held by other jobs. Called before a push that is accepted as a
-- whole or not at all.
-- KEYS
-- ARGV now_ms tag [+ id digest]
-- REPLY ok:[index from 0, ID of the holder](of each such job)
-- CHECKS FIRST nothing, because it only reads
-- include lib/clock.lua
-- include lib/jobs/uniqueness.lua
local now_ms, tag = clock.now_ms(ARGV[1]), ARGV[2]
local FIRST, WIDTH = 3, 2

local held = {}
for i = FIRST, #ARGV, WIDTH do
  local id, digest = ARGV[i], ARGV[i + 1]
  local holder = uniqueness.holder_of(digest, now_ms)
  if holder and redis.call('EXISTS', tag .. 'job:' .. id) == 0 then
    held[#held + 1] = (i - FIRST) / WIDTH
    held[#held + 1] = holder.id
  end
end
return {'ok', held}
