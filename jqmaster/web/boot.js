// Runs before the first paint and before the modules: sets the theme, lest a dark page flashes white; begins what would else
// begin one round trip later; and loads the page again when no master answered while it was loaded. Not a module: those run later.
(function () {
  const root = document.documentElement;
  /** @param {string} name */
  const stored = (name) => {
    try {
      return localStorage.getItem("jqmaster." + name);
    } catch {
      // Storage may be forbidden: then the browser's preferences hold.
      return null;
    }
  };
  const theme = stored("theme");
  if (theme === "light" || theme === "dark") root.dataset["theme"] = theme;

  const isJapanese = (navigator.languages ?? [navigator.language]).some((tag) => tag.startsWith("ja"));
  const code = stored("language") ?? (isJapanese ? "ja" : "en");
  const texts = root.getAttribute("data-language-" + code);
  if (texts) {
    const link = document.createElement("link");
    link.rel = "modulepreload";
    link.href = texts;
    document.head.append(link);
  }
  const session = fetch("api/session", {
    headers: { Accept: "application/json" },
    credentials: "same-origin",
    cache: "no-store",
    redirect: "error",
  });
  // Whoever takes it hears of its failure.
  session.catch(() => {});
  /** @type {any} */ (globalThis).jqmasterSession = session;

  let isHealing = false;
  const heal = () => {
    const box = document.querySelector(".boot");
    if (!box || isHealing) return;
    isHealing = true;
    box.textContent =
      code === "ja"
        ? "応答するマスターがありません。再試行しています …"
        : "No master answers. Trying again …";
    setInterval(() => {
      fetch(document.baseURI, { cache: "no-store" }).then(
        (answer) => answer.ok && location.reload(),
        () => {},
      );
    }, 2000);
  };
  // Scripts and sheets that could not be loaded tell it here; the page does without its icon.
  const later = (/** @type {Event} */ event) => {
    if (!(event.target instanceof HTMLLinkElement && event.target.rel === "icon")) setTimeout(heal, 500);
  };
  addEventListener("error", later, true);
  addEventListener("unhandledrejection", later);
})();
