-- Counts of one name in one minute or hour, as a MessagePack list. jqmaster/store/operations/history.py also reads this
-- list. Its elements:
--   pushed, succeeded, failed, canceled, skipped, retried
--   longest wait ms, longest run ms
--   backlog, oldest wait ms (-1: not seen)
--   waits, runs: histograms, each empty or [number of the first bucket, count, count …]
--   discarded, which release 0.2 did not write
local counts = (function()
  local SUMS, WAITS, RUNS, DISCARDED = 6, 11, 12, 13

  -- Returns the counts; nil if they are damaged.
  local function read(packed)
    local ok, found = pcall(cmsgpack.unpack, packed)
    if not ok or type(found) ~= 'table' or #found < RUNS then return nil end
    return found
  end

  local function merged_spans(one, other)
    if #one == 0 then return other end
    if #other == 0 then return one end
    local first = math.min(one[1], other[1])
    local last = math.max(one[1] + #one, other[1] + #other) - 2
    local merged = {first}
    for n = first, last do
      merged[n - first + 2] = (n >= one[1] and one[n - one[1] + 2] or 0)
        + (n >= other[1] and other[n - other[1] + 2] or 0)
    end
    return merged
  end

  -- Merges two lists of counts: adds up the sums, and keeps the larger of two maxima.
  local function merge(one, other)
    local merged = {}
    for n = 1, WAITS - 1 do
      merged[n] = n <= SUMS and one[n] + other[n] or math.max(one[n], other[n])
    end
    merged[WAITS] = merged_spans(one[WAITS], other[WAITS])
    merged[RUNS] = merged_spans(one[RUNS], other[RUNS])
    merged[DISCARDED] = (one[DISCARDED] or 0) + (other[DISCARDED] or 0)
    return merged
  end

  return {read = read, merge = merge}
end)()
