#!lua flags=allow-oom
-- Removes keys of a copy that no master serves. A move has left this copy behind, or has to copy again.
-- KEYS frozen:string [+ key:string]
-- ARGV id(of the move) number(of the mover)
-- REPLY ok | other
-- CHECKS FIRST that this mover has frozen the copy
-- include lib/namespaces/freezes.lua
local frozen_key = KEYS[1]
local id, number = ARGV[1], ARGV[2]

if not freezes.are_of(frozen_key, id, number) then return {'other'} end

for n = 2, #KEYS do redis.call('UNLINK', KEYS[n]) end
return {'ok'}
