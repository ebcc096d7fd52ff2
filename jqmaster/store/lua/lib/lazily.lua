-- Modules that are made when they are first used: a call pays for none that it does not need.
--
-- A file that says `local NAME = lazily.made_by(function()` becomes a table with this metatable, whose first element
-- makes the module (jqmaster/store/link/script_modules.py).
local lazily = (function()
  -- Reading a field that is not there makes it. A module that reads some of another at its top is made together with
  -- that.
  local ON_FIRST_USE = {__index = function(module, name)
    local made = rawget(module, 1)()
    module[1] = nil
    setmetatable(module, {__index = made})
    return made[name]
  end}

  -- Returns whether any of its fields was read: if not, a module that gathers writes has none.
  local function is_made(module)
    return rawget(module, 1) == nil
  end

  return {ON_FIRST_USE = ON_FIRST_USE, is_made = is_made}
end)()
