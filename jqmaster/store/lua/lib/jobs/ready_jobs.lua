-- include lib/jobs/record.lua
-- Changes the records of ready jobs for a claim. Records of similar jobs share most values, which it computes once.
local ready_jobs = (function()
  local byte, sub, unpack_bytes = string.byte, string.sub, struct.unpack
  -- A cache. Key: the bytes of the length fields of a record, from `name` to the extras. Value: the offset of the
  -- argument; false: the record holds gates.
  local arguments_at = {}
  -- A cache. Key: the old bytes of a record from `version` to `returned_offers`. Value: the new bytes from `state` on;
  -- false: such a job is not ready.
  local beginnings = {}

  -- Returns whether the record is long enough to have an argument. An argument has at least one byte.
  local function is_whole(job)
    if #job < layout.name.at + byte(job, layout.name.length_at) then return false end
    local _, extras_at = record.gates_span(job)
    return #job > extras_at + 3 and #job > extras_at + 3 + unpack_bytes('>I4', job, extras_at)
  end

  local function argument_at(kind)
    local at, gates_at = false, byte(kind, 1) + 2
    local count = byte(kind, gates_at)
    if #kind == gates_at + 4 and (count == 0 or count == layout.gates.in_lane) then
      at = layout.name.length_at + gates_at + 4 + unpack_bytes('>I4', kind, gates_at + 1)
    end
    arguments_at[kind] = at
    return at
  end

  local function claimed_beginning(progress)
    local version, state, flags = byte(progress, layout.version.at, layout.flags.at)
    local beginning = false
    if version == layout.VERSION and state == layout.STATE.ready then
      if record.has_flag(flags, layout.FLAG.confirmed) then flags = flags - layout.FLAG.confirmed end
      local attempt = unpack_bytes('>I4', progress, layout.attempt.at) + 1
      beginning = string.char(layout.STATE.running, flags, layout.CAUSE.none) .. struct.pack('>I4', attempt)
        .. sub(progress, layout.failures.at)
    end
    beginnings[progress] = beginning
    return beginning
  end

  -- Returns the bytes of a claimed record from `state` to `returned_offers`; nil: the record is damaged, or the job is
  -- not ready. Also returns whether the record may hold gates.
  local function as_claimed(job)
    if not job or #job < layout.name.at then return nil end
    local progress = sub(job, 1, layout.returned_offers.last)
    local beginning = beginnings[progress]
    if beginning == nil then beginning = claimed_beginning(progress) end
    if not beginning then return nil end
    local kind = sub(job, layout.name.length_at, layout.name.at + byte(job, layout.name.length_at) + 4)
    local starts_at = arguments_at[kind]
    if starts_at == nil then starts_at = argument_at(kind) end
    if starts_at then
      if #job < starts_at then return nil end
      return beginning, false
    end
    if not is_whole(job) then return nil end
    return beginning, true
  end

  return {as_claimed = as_claimed}
end)()
