-- include lib/lazily.lua
-- include lib/jobs/record.lua
-- include lib/constraints/gate_ids.lua
-- The room that a gate with a weight keeps for a job that does not fit yet. Otherwise, lighter jobs on other workers
-- could always start before that job.
--
-- The note of this job is the text of `needed:{gate}`:
--   the room that it needs, in thousandths
--   its priority
--   when a claim last asked for it
--   since when there is enough room (0: there is not enough)
--   its ID
--   its place in the order of claims
-- The note ends when the job starts or no longer waits. It also ends if no claim asks for the job or takes it. This
-- happens, for example, if all workers for the job are gone or busy.
local kept_room = lazily.made_by(function()
  local tag = ARGV.tag
  -- NOTE_MS: how long a note is valid if no claim asks for its job. ASK_MS: how long after the last such claim the gate
  -- is checked, so that another claim asks for the job before the note expires.
  local NOTE_MS, ASK_MS = 60000, 30000
  -- TAKE_MS: how long a note is valid once there is enough room for its job. WRITE_MS: the minimum time between two
  -- writes of a note.
  local TAKE_MS, WRITE_MS = 2000, 5000

  local function key_of(gate_id) return tag .. 'needed:' .. gate_id end

  -- Returns the text of the note at a gate; nil if there is none. A damaged key must not stop a script in the middle.
  local function stored(gate_id)
    local text = redis.pcall('GET', key_of(gate_id))
    return type(text) == 'string' and text or nil
  end

  local function read(text)
    local need, score, asked_at_ms, fits_at_ms, id, order =
      string.match(text or '', '^(%d+) (%-?%d+) (%d+) (%d+) (%S+) (.+)$')
    if not need then return nil end
    return {need = tonumber(need), score = tonumber(score), asked_at_ms = tonumber(asked_at_ms),
      fits_at_ms = tonumber(fits_at_ms), id = id, order = order}
  end

  -- Returns when a note expires.
  local function end_of(note)
    local end_ms = note.asked_at_ms + NOTE_MS
    return note.fits_at_ms > 0 and math.min(end_ms, note.fits_at_ms + TAKE_MS) or end_ms
  end

  local function still_waits(id)
    local state = record.state_of(record.beginning(tag .. 'job:' .. id, layout.state.last))
    -- Include suspects: after their earlier workers were lost, they wait in the state `retrying`.
    return state == layout.STATE.ready or state == layout.STATE.retrying
  end

  -- Returns the note in this text; nil if the note is no longer valid.
  local function of(text, now_ms)
    local note = read(text)
    if not note or end_of(note) <= now_ms or not still_waits(note.id) then return nil end
    return note
  end

  -- Returns whether a job is the job of a note, or comes before it. `place`: the job's `id`, `score` and `order`.
  local function is_first(note, place)
    if note.id == place.id or place.score < note.score then return true end
    return place.score == note.score and place.order < note.order
  end

  local function write(gate_id, note)
    redis.call('SET', key_of(gate_id), string.format('%.0f %.0f %.0f %.0f %s %s', note.need, note.score,
      note.asked_at_ms, note.fits_at_ms, note.id, note.order), 'PX', NOTE_MS)
  end

  -- Records that a claim has asked for a job that needs this room. `before`: the present note at the gate, or nil.
  -- Returns the note of the job.
  local function keep(gate_id, before, need, place, now_ms)
    local is_known = before and before.id == place.id and before.need == need and before.order == place.order
      and before.score == place.score and before.fits_at_ms == 0
    if is_known and before.asked_at_ms + WRITE_MS > now_ms then return before end
    local note = {need = need, score = place.score, asked_at_ms = now_ms, fits_at_ms = 0, id = place.id,
      order = place.order}
    write(gate_id, note)
    return note
  end

  -- Records that there is enough room for the job.
  local function fits_now(gate_id, note, now_ms)
    if note.fits_at_ms > 0 then return end
    note.fits_at_ms = now_ms
    write(gate_id, note)
  end

  local function drop(gate_id) redis.call('DEL', key_of(gate_id)) end

  -- Returns when to check the gate again because of its note. At that time, a claim can still ask for the job, or the
  -- note expires.
  local function check_at(note, now_ms)
    local ask_ms, end_ms = note.asked_at_ms + ASK_MS, end_of(note)
    return ask_ms > now_ms and math.min(ask_ms, end_ms) or end_ms
  end

  -- At these gates, drops the notes of jobs for which `is_gone` returns true. Adds the gates of the dropped notes to
  -- `left`.
  local function leave(ids, is_gone, left)
    for _, gate_id in ipairs(ids) do
      local note = gate_ids.may_have_charges(gate_id) and read(stored(gate_id))
      if note and is_gone(note.id) then
        drop(gate_id)
        left[#left + 1] = gate_id
      end
    end
  end

  return {
    stored = stored, of = of, is_first = is_first, keep = keep, fits_now = fits_now, drop = drop, check_at = check_at,
    leave = leave,
  }
end)
