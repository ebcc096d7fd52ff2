-- include lib/lazily.lua
-- include lib/lists.lua
-- Follow-ups: work that a change causes later. They are written to the sorted set `follow_ups` in the same step as the
-- change. The leader carries out each follow-up at least once. An entry has the form `kind:subject`, and its score is
-- its number. Writing an entry again gives it a new number. A leader that has just carried out the old entry then does
-- not remove the new one.
local follow_ups = lazily.made_by(function()
  local tag = ARGV.tag
  -- Every master listens to this channel. Follow-ups are announced here, because scripts that end jobs do not return
  -- their follow-ups to the caller.
  local WAKE = 'wake'
  local channel = tag .. WAKE
  local entries = {}

  local function add(kind, subject)
    entries[#entries + 1] = kind .. ':' .. subject
  end

  local function write()
    if #entries == 0 then return end
    local key = tag .. 'follow_ups'
    local numbered, newest = {}, tonumber(redis.call('ZRANGE', key, -1, -1, 'WITHSCORES')[2] or 0)
    for i, entry in ipairs(entries) do lists.add_pair(numbered, newest + i, entry) end
    lists.zadd(key, numbered)
    redis.call('PUBLISH', channel, 'followups')
  end

  return {add = add, write = write}
end)
