#!lua flags=no-writes
-- Counts the running jobs by worker and name, in a part of the index of running jobs.
-- KEYS running:zset
-- ARGV tag from_rank most
-- REPLY ok:[worker_id_bytes and name, count],number of jobs that follow this part
-- CHECKS FIRST nothing, because it only reads
-- include lib/jobs/running_names.lua
local running_key = KEYS[1]
local from_rank, most = tonumber(ARGV[2]), tonumber(ARGV[3])

return {'ok', running_names.of(running_key, from_rank, most)}
