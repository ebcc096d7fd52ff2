// Before the first paint, lest a page that was set to dark flashes white. Not a module: those run later.
(function () {
  try {
    const theme = localStorage.getItem("jqmaster.theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset["theme"] = theme;
  } catch {
    // Storage may be forbidden: then the system's preference holds.
  }
})();
