-- include lib/lazily.lua
-- include lib/jobs/record.lua
-- include lib/constraints/slots.lua
-- Finds jobs that `handed_over:{gate}` lists although they hold no slot at that gate. Such entries would let too many
-- jobs start.
local handed_over_faults = lazily.made_by(function()
  local tag = ARGV.tag

  local function holds_slot(gate_id, id)
    for _, gate_list in ipairs(slots.kept_under(gate_id)) do
      if redis.call('HEXISTS', tag .. 'slots:' .. gate_list, id) == 1 then return true end
    end
    return false
  end

  local function is_with_another(id)
    local head = record.read_head(tag .. 'job:' .. id)
    if head == '' then return false end
    local state = record.state_of(head)
    return state == layout.STATE.awaiting_callback
      or (state == layout.STATE.running and record.has_flag(record.flags_of(head), layout.FLAG.has_challenge))
  end

  -- Returns the jobs among these that are wrongly listed at the gate.
  local function among(gate_id, ids)
    local wrong = {}
    for _, id in ipairs(ids) do
      if redis.call('SISMEMBER', tag .. 'handed_over:' .. gate_id, id) == 1
        and not (holds_slot(gate_id, id) and is_with_another(id)) then wrong[#wrong + 1] = id end
    end
    return wrong
  end

  return {among = among}
end)
