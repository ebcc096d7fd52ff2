#!lua
-- Stores the newest declaration of a source, or removes a source that no longer declares anything.
-- KEYS declarations:hash
-- ARGV source document(MessagePack; empty: remove the source) max_sources
-- REPLY ok | full
-- CHECKS FIRST that a new source does not exceed the limit
local declarations_key = KEYS[1]
local source, document, max_sources = ARGV[1], ARGV[2], tonumber(ARGV[3])

if document == '' then
  redis.call('HDEL', declarations_key, source)
  return {'ok'}
end
if redis.call('HEXISTS', declarations_key, source) == 0 and redis.call('HLEN', declarations_key) >= max_sources then
  return {'full'}
end
redis.call('HSET', declarations_key, source, document)
return {'ok'}
