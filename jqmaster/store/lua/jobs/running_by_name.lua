#!lua flags=no-writes
-- Counts running jobs by worker and name. Reads only a range of ranks in the index of running jobs.
-- KEYS running:zset
-- ARGV tag from_rank most(maximum number of jobs to read)
-- REPLY ok:[worker_id_bytes and name, count],number of running jobs after this range
-- CHECKS FIRST nothing, because it only reads
-- include lib/jobs/running_names.lua
local running_key = KEYS[1]
local from_rank, most = tonumber(ARGV[2]), tonumber(ARGV[3])

return {'ok', running_names.of(running_key, from_rank, most)}
