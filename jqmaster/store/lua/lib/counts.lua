-- Counts of one name in one minute or hour, as MessagePack; jqmaster/store/operations/history.py reads the same:
-- [pushed, succeeded, failed, canceled, skipped, retried, longest wait ms, longest run ms, backlog (-1: not seen),
--  oldest wait ms (-1: not seen), waits, runs], the last two as [number of the first bucket, count, count …] or [].
local SUMS, WIDTH_OF_COUNTS = 6, 12

local function counts_unpacked(packed)
  local ok, counts = pcall(cmsgpack.unpack, packed)
  if not ok or type(counts) ~= 'table' or #counts < WIDTH_OF_COUNTS then return nil end
  return counts
end

local function spans_merged(one, other)
  if #one == 0 then return other end
  if #other == 0 then return one end
  local first = math.min(one[1], other[1])
  local last = math.max(one[1] + #one, other[1] + #other) - 2
  local merged = {first}
  for n = first, last do
    merged[n - first + 2] = (n >= one[1] and one[n - one[1] + 2] or 0) + (n >= other[1] and other[n - other[1] + 2] or 0)
  end
  return merged
end

-- What two hold together: sums, and the larger of what is no sum.
local function counts_merged(one, other)
  local merged = {}
  for n = 1, WIDTH_OF_COUNTS - 2 do
    merged[n] = n <= SUMS and one[n] + other[n] or math.max(one[n], other[n])
  end
  merged[11] = spans_merged(one[11], other[11])
  merged[12] = spans_merged(one[12], other[12])
  return merged
end
