#!lua flags=no-writes
-- Finds the jobs of a push whose IDs belong to other requests. Called before a push that is accepted as a whole or not
-- at all.
-- KEYS
-- ARGV job_prefix [+ id digest]
-- REPLY ok:[index from 0 of each such job]
-- CHECKS FIRST nothing, because it only reads
local job_prefix = ARGV[1]
local FIRST, WIDTH = 2, 2

local count = (#ARGV - FIRST + 1) / WIDTH
local keys = {}
for i = 1, count do keys[i] = job_prefix .. ARGV[FIRST + (i - 1) * WIDTH] end
local taken = {}
if redis.call('EXISTS', unpack(keys)) > 0 then
  for i = 1, count do
    if redis.call('EXISTS', keys[i]) == 1
      and redis.pcall('GETRANGE', keys[i], layout.digest.offset, layout.digest.last - 1)
        ~= ARGV[FIRST + (i - 1) * WIDTH + 1] then
      taken[#taken + 1] = i - 1
    end
  end
end
return {'ok', taken}
