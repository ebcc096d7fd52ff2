-- include lib/lazily.lua
-- include lib/lists.lua
-- Follow-ups of a change, written in the same step: entries of the sorted set `follow_ups`, which a duty of the leader
-- carries out at least once. The text of an entry is its kind, a colon, and its subject. An entry that is
-- written again gets a new number, so that whoever carries out the former one does not remove it.
local follow_ups = lazily.made_by(function()
  local tag = ARGV.tag
  -- Every master listens on this channel, also the leader: a script that ends jobs does not tell its caller of
  -- follow-ups.
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
