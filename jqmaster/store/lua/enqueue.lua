#!lua
-- Accepts new jobs, each by itself: a repeat of an accepted one changes nothing that anyone can see.
-- KEYS scheduled:zset names:set expiring:zset
-- ARGV now_ms job_prefix ready_prefix wake_channel(empty: nobody to wake) [+ id flags due(empty: now, +ms: after that, ms: at that) name priority expires_at_ms(0: never) digest rest_of_record]
-- REPLY ok:now_ms,[1 accepted, 0 known already, -1 taken by another request]
-- CHECKS FIRST whether each ID is taken, and by what
-- include lib/time.lua
-- include lib/record.lua
local scheduled_key, names_key, expiring_key = KEYS[1], KEYS[2], KEYS[3]
local now_ms, job_prefix, ready_prefix, wake_channel = time_ms(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]
local FIRST, WIDTH = 5, 8

local count = (#ARGV - FIRST + 1) / WIDTH
local keys = {}
for i = 1, count do keys[i] = job_prefix .. ARGV[FIRST + (i - 1) * WIDTH] end
local some_taken = redis.call('EXISTS', unpack(keys)) > 0

local status, seen = {}, {}
for i = 1, count do
  local at = FIRST + (i - 1) * WIDTH
  status[i] = 1
  local digest = seen[keys[i]]
  if not digest and some_taken and redis.call('EXISTS', keys[i]) == 1 then
    digest = redis.pcall('GETRANGE', keys[i], 120, 127)
  end
  if digest then
    status[i] = digest == ARGV[at + 6] and 0 or -1
  else
    seen[keys[i]] = ARGV[at + 6]
  end
end

local scheduled, expiring, ready, names, wakes = {}, {}, {}, {}, false
for i = 1, count do
  local at = FIRST + (i - 1) * WIDTH
  if status[i] == 1 then
    local id, due, name, priority = ARGV[at], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4]
    local due_at_ms, state = 0, STATE.ready
    if due ~= '' then
      due_at_ms = string.sub(due, 1, 1) == '+' and now_ms + tonumber(string.sub(due, 2)) or tonumber(due)
      if due_at_ms > now_ms then state = STATE.scheduled end
    end
    local rest = ARGV[at + 7]
    redis.call('SET', keys[i], struct.pack('>BBBBI4I4I2I2i8', 1, state, tonumber(ARGV[at + 1]), 0, 0, 0, 0, 0, due_at_ms)
      .. string.rep('\0', 64) .. string.sub(rest, 1, 16) .. struct.pack('>i8', now_ms) .. string.sub(rest, 25))
    if state == STATE.scheduled then
      scheduled[#scheduled + 1] = due_at_ms
      scheduled[#scheduled + 1] = id
    else
      local lane = ready[name]
      if not lane then
        lane = {}
        ready[name] = lane
        names[#names + 1] = name
      end
      lane[#lane + 1] = priority
      lane[#lane + 1] = id
      wakes = true
    end
    local expires_at_ms = tonumber(ARGV[at + 5])
    if expires_at_ms > 0 then
      expiring[#expiring + 1] = expires_at_ms
      expiring[#expiring + 1] = id
    end
  elseif status[i] == 0 then
    -- A repeat writes what is there already: WAIT on its connection would else confirm a write that never replicated.
    redis.call('SETRANGE', keys[i], 0, '\1')
  end
end
for name, lane in pairs(ready) do add_all(ready_prefix .. name, lane) end
each('SADD', names_key, names)
add_all(scheduled_key, scheduled)
add_all(expiring_key, expiring)
if wake_channel ~= '' then
  if wakes then redis.call('PUBLISH', wake_channel, 'ready') end
  if #scheduled > 0 then redis.call('PUBLISH', wake_channel, 'due') end
end
return {'ok', now_ms, status}
