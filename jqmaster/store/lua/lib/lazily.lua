-- Modules that are created on first use, so that a call does not pay for modules that it does not need.
--
-- A file with `local NAME = lazily.made_by(function()` becomes an empty table with this metatable. When a field of the
-- table is read, the metatable's `__index` creates the module (see jqmaster/store/link/script_modules.py). If the
-- top-level code of a module reads a field of another module, that module is created, too.
local lazily = (function()
  local ON_FIRST_USE = {}

  -- Returns whether a module was created. If not, it has no changes to write.
  local function is_made(module)
    return getmetatable(module) ~= ON_FIRST_USE
  end

  return {ON_FIRST_USE = ON_FIRST_USE, is_made = is_made}
end)()
