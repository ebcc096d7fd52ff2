-- A leader's act counts only under the newest leadership: equality, not order, so that no rolled-back epoch passes.
local function leads(epoch_key, epoch)
  return redis.call('GET', epoch_key) == epoch
end
