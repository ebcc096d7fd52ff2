#!lua
-- Saves one master's figures about targets for `kept_ms`, so that every master can show the sum of all masters.
-- KEYS [+ target_figures:string]
-- ARGV kept_ms [+ figures(MessagePack)]
-- REPLY ok
-- CHECKS FIRST nothing: this script never refuses
local kept_ms = ARGV[1]
local FIRST = 2

for n = 1, #KEYS do redis.call('SET', KEYS[n], ARGV[FIRST + n - 1], 'PX', kept_ms) end
return {'ok'}
