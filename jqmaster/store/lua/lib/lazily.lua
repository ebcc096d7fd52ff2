-- Modules that are made when they are first used: a call pays for none that it does not need.
local lazily = (function()
  local FIRST_USE = {__index = function(module, name)
    local made = rawget(module, 1)()
    module[1] = nil
    setmetatable(module, {__index = made})
    return made[name]
  end}

  -- The module that `make` returns. Reading one of its fields makes it: a module that reads some of another at its top
  -- is made together with that.
  local function made_by(make)
    return setmetatable({make}, FIRST_USE)
  end

  -- Returns whether any of its fields was read: if not, a module that gathers writes has none.
  local function is_made(module)
    return rawget(module, 1) == nil
  end

  return {made_by = made_by, is_made = is_made}
end)()
