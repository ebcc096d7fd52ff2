-- include lib/lazily.lua
-- include lib/jobs/record.lua
-- The challenges of jobs. `challenges:{id}` has the challenges of one job as a MessagePack array of maps, the newest
-- last. jqmaster/store/jobs/challenges.py reads them. If the record of the job has the flag `has_challenge`, the newest
-- challenge belongs to the present attempt. The fields of a map:
--   id         the part of the request ID that is shown
--   digest     the digest of the whole request ID
--   attempt    the number of the attempt
--   state      0 if the challenge is open
--   opened     when it was opened
--   wait       how long it waits for the callbacks, in ms
--   expect     the number of callbacks; missing if it is 1
--   meta       a note for people
--   since      when the attempt reported that it waits
--   due        the deadline, which that report sets
--   sign       how callbacks are signed: [header, secret, prefix, encoding]
--   taken      the callbacks: [identity, digest of type and body, time, type, body]
--   form       the form for people, as MessagePack
--   audience   who may answer the form
--   answers    answers of people as MessagePack, each at the index of its callback in `taken`
--   remind     ms after `since` at which people are reminded; `reminders` lists the challenge until then
--   link       the request ID of a challenge for people
--   fraction   the progress that the outside system reported last
--   note       the text of that progress
--   told       when that progress was reported
--   run        when a worker got the callbacks
--   ended      when the attempt ended
-- At the end of a challenge, `sign`, `link`, and type and body of each callback are removed.
local challenges = lazily.made_by(function()
  local tag = ARGV.tag
  local MOST = 20
  -- The name of a list ends with this if its jobs are deliveries to a target. Only workers that deliver to targets
  -- claim the jobs of such a list.
  local OF_TARGETS = '\t'
  -- The year 2100: the score of a job that waits for a worker and no longer has a deadline.
  local NO_DEADLINE = 4102444800000
  local OPEN, SUCCEEDED, FAILED, EXPIRED, VOID = 0, 1, 2, 3, 4

  -- Returns the challenges of a job; an empty list if there are none, or if they cannot be read.
  local function read(id)
    local packed = redis.pcall('GET', tag .. 'challenges:' .. id)
    if type(packed) ~= 'string' then return {} end
    local ok, list = pcall(cmsgpack.unpack, packed)
    if not ok or type(list) ~= 'table' then return {} end
    for _, challenge in ipairs(list) do
      if type(challenge) ~= 'table' then return {} end
    end
    return list
  end

  local function write(id, list)
    while #list > MOST do table.remove(list, 1) end
    redis.call('SET', tag .. 'challenges:' .. id, cmsgpack.pack(list))
  end

  -- Returns the challenge of the job's present attempt, and the list of all challenges of the job; nil if there is
  -- none.
  local function open_one(id, head)
    if #head < layout.head.length or not record.has_flag(record.flags_of(head), layout.FLAG.has_challenge) then
      return nil
    end
    local list = read(id)
    local last = list[#list]
    if last and last.state == OPEN and last.attempt == (record.attempts_of(head)) then return last, list end
    return nil
  end

  local function is_answered(challenge)
    return challenge.taken ~= nil and #challenge.taken >= (challenge.expect or 1)
  end

  -- Returns the queue of a job: its name, with the labels that it requires.
  local function queue_of(head)
    local lane = redis.call('GET', tag .. 'lane:' .. record.hex(record.lane_id_of(head)))
    return lane and string.match(lane, '^([^\n]+)\n') or record.name_of(head)
  end

  -- Returns the name of the list that holds this job while it waits for a worker.
  local function list_of(head, challenge)
    return queue_of(head) .. (challenge.meta == layout.TARGET_META and OF_TARGETS or '')
  end

  -- Offers the job, from `at_ms` on, to workers that run its callbacks.
  local function offer(id, head, challenge, at_ms)
    local name = list_of(head, challenge)
    -- Write the name to the hash `rules`, which each claim reads anyway. A claim then costs nothing extra if no
    -- callback waits.
    local names = redis.call('HGET', tag .. 'rules', 'callback_names') or ''
    if not string.find('\n' .. names, '\n' .. name .. '\n', 1, true) then
      redis.call('HSET', tag .. 'rules', 'callback_names', names .. name .. '\n')
    end
    redis.call('ZADD', tag .. 'callbacks:' .. name, at_ms, id)
    redis.call('ZADD', tag .. 'awaiting_callback', NO_DEADLINE, id)
  end

  -- Removes the job from the list with this name.
  local function remove(id, name)
    if redis.call('ZREM', tag .. 'callbacks:' .. name, id) > 0
      and redis.call('EXISTS', tag .. 'callbacks:' .. name) == 0 then
      local lines = '\n' .. (redis.call('HGET', tag .. 'rules', 'callback_names') or '')
      local from, last = string.find(lines, '\n' .. name .. '\n', 1, true)
      local rest = from and string.sub(lines, 2, from) .. string.sub(lines, last + 1) or string.sub(lines, 2)
      if rest == '' then redis.call('HDEL', tag .. 'rules', 'callback_names')
      else redis.call('HSET', tag .. 'rules', 'callback_names', rest) end
    end
  end

  -- Removes the job from the lists of jobs whose callbacks a worker may run.
  local function withdraw(id, head)
    local queue = queue_of(head)
    remove(id, queue)
    remove(id, queue .. OF_TARGETS)
  end

  -- Returns the fault of a job that awaits callbacks; empty: no fault. As soon as all callbacks have arrived, and not
  -- earlier, the job must be in a list `callbacks:{name}`, and claims must find this list.
  local function fault_of(id, head)
    if head == '' then return '' end
    local challenge = open_one(id, head)
    if not challenge then return 'awaits the callbacks of no challenge' end
    local name = list_of(head, challenge)
    local names = '\n' .. (redis.call('HGET', tag .. 'rules', 'callback_names') or '')
    local is_listed = redis.call('ZSCORE', tag .. 'callbacks:' .. name, id)
    if is_listed and not string.find(names, '\n' .. name .. '\n', 1, true) then
      return 'has its callbacks, but no claim would find them'
    end
    if is_answered(challenge) and not is_listed then return 'has its callbacks, but no worker would get them' end
    if is_listed and not is_answered(challenge) then return 'would be given to a worker without its callbacks' end
    return ''
  end

  -- Ends a challenge. Removes the bodies of its callbacks, but keeps their identities, so that repeats are recognized.
  local function finish(id, challenge, list, state, head, now_ms)
    challenge.state, challenge.ended, challenge.sign, challenge.link = state, now_ms, nil, nil
    if is_answered(challenge) and record.state_of(head) == layout.STATE.running then
      challenge.run = record.int64(head, layout.started_at_ms.at)
    end
    for _, one in ipairs(challenge.taken or {}) do one[4], one[5] = nil, nil end
    if challenge.remind then redis.call('ZREM', tag .. 'reminders', id) end
    write(id, list)
  end

  -- Ends the challenge of an attempt that ends. An answered challenge gets the outcome of the attempt. `head`: the
  -- record before the attempt ends. `target`: the job's new state.
  local function close(id, head, target, now_ms)
    local challenge, list = open_one(id, head)
    if not challenge then return end
    local state = VOID
    if target == layout.STATE.succeeded or target == layout.STATE.discarded then
      if is_answered(challenge) then state = SUCCEEDED end
    elseif target ~= layout.STATE.canceled and challenge.since and is_answered(challenge) then
      state = FAILED
    end
    finish(id, challenge, list, state, head, now_ms)
  end

  return {
    OF_TARGETS = OF_TARGETS, OPEN = OPEN, SUCCEEDED = SUCCEEDED, FAILED = FAILED, EXPIRED = EXPIRED, VOID = VOID,
    read = read, write = write, open_one = open_one, is_answered = is_answered, offer = offer, remove = remove,
    withdraw = withdraw, fault_of = fault_of, finish = finish, close = close,
  }
end)
