#!lua
-- Binds idempotency keys to the job IDs of their first requests. A repeated request gets the same job ID, and learns
-- whether the job was accepted. The lifetime of a key starts with its first use.
-- KEYS
-- ARGV idempotency_prefix [+ key_digest job_id digest life_ms]
-- REPLY ok:[job_id mark](mark 0: not accepted yet; otherwise the byte that mark_accepted.lua added)
--   | taken:[index from 0](of each key that stands for another request)
-- CHECKS FIRST to which job and request each key is bound
local prefix = ARGV[1]
local FIRST, WIDTH = 2, 4

local bound, taken, is_new = {}, {}, {}
for i = FIRST, #ARGV, WIDTH do
  local key_digest, job_id, digest = unpack(ARGV, i, i + 2)
  if not bound[key_digest] then
    local stored = redis.call('GET', prefix .. key_digest)
    is_new[key_digest] = not stored
    bound[key_digest] = stored or job_id .. digest
  end
  if string.sub(bound[key_digest], 37, 44) ~= digest then taken[#taken + 1] = (i - FIRST) / WIDTH end
end
if #taken > 0 then return {'taken', taken} end

local answers = {}
for i = FIRST, #ARGV, WIDTH do
  local key_digest, life_ms = ARGV[i], ARGV[i + 3]
  local text = bound[key_digest]
  if is_new[key_digest] then
    redis.call('SET', prefix .. key_digest, text, 'PX', life_ms)
    is_new[key_digest] = false
  else
    -- Write again on a repeated call. WAIT covers only writes of its own connection, and the write of the first call
    -- may never have reached the replicas.
    redis.call('SET', prefix .. key_digest, text, 'KEEPTTL')
  end
  answers[#answers + 1] = string.sub(text, 1, 36)
  answers[#answers + 1] = string.byte(text, 45) or 0
end
return {'ok', answers}
