#!lua flags=no-writes
-- Returns the fault of each lane, all read at one instant. An empty text means: no fault.
-- KEYS rules:hash
-- ARGV tag [+ lane]
-- REPLY ok:[fault](of each lane)
-- CHECKS FIRST nothing, because it only reads
-- include lib/lanes/lane_faults.lua
local rules_key = KEYS[1]
local FIRST = 2

local edition = tonumber(redis.call('HGET', rules_key, 'edition') or '0')

local faults = {}
for i = FIRST, #ARGV do faults[#faults + 1] = lane_faults.of(ARGV[i], edition) end
return {'ok', faults}
