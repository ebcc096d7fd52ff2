-- Creates modules on first use, so that a call does not pay for modules that it does not need.
--
-- A file with `local NAME = lazily.made_by(function()` becomes a table with this metatable. The first element of the
-- table is the function that creates the module (jqmaster/store/link/script_modules.py).
local lazily = (function()
  -- Reading a missing field creates the module. A module that reads a field of another module at its top creates that
  -- one, too.
  local ON_FIRST_USE = {__index = function(module, name)
    local made = rawget(module, 1)()
    module[1] = nil
    setmetatable(module, {__index = made})
    return made[name]
  end}

  -- Returns whether a module was created. If not, it has gathered no writes.
  local function is_made(module)
    return rawget(module, 1) == nil
  end

  return {ON_FIRST_USE = ON_FIRST_USE, is_made = is_made}
end)()
