#!lua flags=no-writes
-- Reads entries of several logs, all at one instant. Reads each log from its own position, and returns the number of
-- the first entry that it read there.
-- KEYS [+ log:stream]
-- ARGV limit(entries of each log) [+ position number(of the entry at the position; 0: start of the log)]
-- REPLY ok:[first number, [position, [field value]]](of each log)
-- CHECKS FIRST nothing: this script never refuses
local limit = ARGV[1]
local FIRST, WIDTH = 2, 2
local STREAM = 'STREAM'

-- Returns whether one stream position (ms-number) comes after another one.
local function is_after(one, other)
  local one_ms, one_number = string.match(one, '^(%d+)-(%d+)$')
  local other_ms, other_number = string.match(other, '^(%d+)-(%d+)$')
  if one_ms ~= other_ms then return tonumber(one_ms) > tonumber(other_ms) end
  return tonumber(one_number) > tonumber(other_number)
end

local logs = {}
for at = 1, #KEYS do
  local position, number = ARGV[FIRST + (at - 1) * WIDTH], tonumber(ARGV[FIRST + (at - 1) * WIDTH + 1])
  local first_number, entries = number + 1, {}
  if redis.call('EXISTS', KEYS[at]) == 1 then
    entries = redis.call('XRANGE', KEYS[at], '(' .. position, '+', 'COUNT', limit)
    local info, facts = redis.call('XINFO', STREAM, KEYS[at]), {}
    for n = 1, #info, 2 do facts[info[n]] = info[n + 1] end
    -- If entries after the position were trimmed, continue with the number of the first entry that is left.
    if facts['first-entry'] and is_after(facts['first-entry'][1], position) then
      first_number = math.max(first_number, facts['entries-added'] - facts['length'] + 1)
    end
  end
  logs[at] = {first_number, entries}
end
return {'ok', logs}
