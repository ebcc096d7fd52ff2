// This script runs before the first paint, and is not a module, because modules run later. It sets the theme, so that a
// dark page does not flash white. It sends requests that the page would otherwise send one round trip later. It reloads
// the page if no master answered while the page loaded.
(function () {
  const root = document.documentElement;
  /** @param {string} name */
  const stored = (name) => {
    try {
      return localStorage.getItem("jqmaster." + name);
    } catch {
      // Storage is forbidden, so the browser's preferences apply.
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
  // Ignore the failure here: the code that uses the promise handles it.
  session.catch(() => {});
  /** @type {{jqmasterSession?: Promise<Response>}} */ (globalThis).jqmasterSession = session;

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
  // A script or stylesheet has failed to load. Ignore the icon, without which the page works.
  const later = (/** @type {Event} */ event) => {
    if (!(event.target instanceof HTMLLinkElement && event.target.rel === "icon")) setTimeout(heal, 500);
  };
  addEventListener("error", later, true);
  addEventListener("unhandledrejection", later);
})();
