#!lua flags=allow-oom
-- Marks a login through an identity provider as used, so that it opens only one session.
-- KEYS login_used:string
-- ARGV life_ms
-- REPLY ok | used
-- CHECKS FIRST that the login was not used before
local used_key, life_ms = KEYS[1], tonumber(ARGV[1])

if redis.call('EXISTS', used_key) == 1 then return {'used'} end
redis.call('SET', used_key, '', 'PX', life_ms)
return {'ok'}
