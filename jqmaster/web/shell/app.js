/** The shell: the session, the current page, the navigation, the keys. */
import { html, render, useEffect, useErrorBoundary, useRef, useState } from "../core/lib.js";
import { Problem, fetchSession, logOut, may, whenUnauthorized } from "../core/api.js";
import { ActionsUnderWay } from "../jobs/actions.js";
import { LANGUAGES, isLanguage, language, setLanguage, t } from "../core/i18n.js";
import { start, stop } from "../core/live.js";
import { Connection, FreshnessLine, useOldness } from "./freshness_line.js";
import { loadNamespaces, useNamespaces } from "../namespaces/known.js";
import { NamespaceChoice, Switcher } from "../namespaces/switcher.js";
import { Palette } from "./palette.js";
import { PauseHost } from "../constraints/pause_dialog.js";
import { usePref } from "../core/prefs.js";
import { go, href, isElsewhere, useRoute } from "../core/router.js";
import { Button, ErrorBox, Loading } from "../ui/controls.js";
import { Dialog, Toasts, toast } from "../ui/dialogs.js";
import { Icon, Logo } from "../ui/icons.js";
import { keysInForce, useKeys } from "../ui/keys.js";
import { usePageTitle } from "../ui/titles.js";
import { visible } from "../core/text.js";
import { Page as Overview } from "../operations/pages/overview.js";
import { Page as Jobs } from "../jobs/pages/jobs.js";
import { Page as Job } from "../jobs/pages/job.js";
import { Page as Names } from "../jobs/pages/names.js";
import { Page as Failures } from "../jobs/pages/failures.js";
import { Page as Batches } from "../batches/pages/batches.js";
import { Page as Constraints } from "../constraints/pages/constraints.js";
import { Page as Definitions } from "../definitions/pages/definitions.js";
import { Page as Calendars } from "../calendars/pages/calendars.js";
import { Page as Events } from "../events/pages/events.js";
import { Page as Workers } from "../workers/pages/workers.js";
import { Page as Masters } from "../operations/pages/masters.js";
import { Page as Namespaces } from "../namespaces/pages/namespaces.js";
import { Page as Incidents } from "../operations/pages/incidents.js";
import { Page as PersonalData } from "../personal_data/pages/personal_data.js";
import { Page as Audit } from "../identity/pages/audit.js";
import { Page as Settings } from "../operations/pages/settings.js";
import { Page as Access } from "../identity/pages/access.js";
import { Page as Account } from "../identity/pages/account.js";
import { Page as Challenges } from "../challenges/pages/challenges.js";
import { Page as Notices } from "../notices/pages/notices.js";
import { Page as Targets } from "../targets/pages/targets.js";
import { Page as Enqueue } from "../jobs/pages/enqueue.js";
import { LoginDialog, Page as Login } from "../identity/pages/login.js";

/** @typedef {import("../core/api.js").Session} Session */
/** @typedef {import("../core/router.js").PageName} PageName */
/** @typedef {{page: PageName, key: string, scope: string, group: number}} Entry */

/** @type {Entry[]} The navigation, with the key that follows `g`. */
const ENTRIES = [
  { page: "overview", key: "o", scope: "read", group: 0 },
  { page: "jobs", key: "j", scope: "read", group: 0 },
  { page: "failures", key: "f", scope: "read", group: 0 },
  { page: "names", key: "n", scope: "read", group: 0 },
  { page: "batches", key: "b", scope: "read", group: 0 },
  { page: "constraints", key: "c", scope: "read", group: 1 },
  { page: "definitions", key: "d", scope: "read", group: 1 },
  { page: "calendars", key: "k", scope: "read", group: 1 },
  { page: "events", key: "v", scope: "read", group: 1 },
  { page: "challenges", key: "h", scope: "read", group: 1 },
  { page: "notices", key: "i", scope: "read", group: 1 },
  { page: "targets", key: "p", scope: "read", group: 1 },
  { page: "workers", key: "w", scope: "read", group: 1 },
  { page: "masters", key: "m", scope: "read", group: 1 },
  { page: "namespaces", key: "N", scope: "read", group: 1 },
  { page: "incidents", key: "r", scope: "read", group: 1 },
  { page: "enqueue", key: "e", scope: "push", group: 2 },
  { page: "audit", key: "a", scope: "operate", group: 2 },
  { page: "settings", key: "s", scope: "read", group: 2 },
  { page: "access", key: "t", scope: "admin", group: 2 },
  { page: "personal_data", key: "x", scope: "admin", group: 2 },
];
const CHORD_MS = 1500;
const TYPING_MS = 1000;

let lastKeyMs = 0;
addEventListener("keydown", () => (lastKeyMs = Date.now()), true);

/** @type {Record<PageName, (props: never) => import("../core/lib.js").Node>} */
const COMPONENTS = {
  overview: Overview,
  jobs: Jobs,
  job: Job,
  names: Names,
  failures: Failures,
  batches: Batches,
  constraints: Constraints,
  definitions: Definitions,
  calendars: Calendars,
  events: Events,
  challenges: Challenges,
  notices: Notices,
  targets: Targets,
  workers: Workers,
  masters: Masters,
  namespaces: Namespaces,
  incidents: Incidents,
  personal_data: PersonalData,
  audit: Audit,
  settings: Settings,
  access: Access,
  account: Account,
  enqueue: Enqueue,
  login: Login,
};

function App() {
  const route = useRoute();
  const [session, setSession] = useState(/** @type {Session | null} */ (null));
  const [problem, setProblem] = useState(/** @type {Problem | null} */ (null));
  const [isLoginWanted, setLoginWanted] = useState(false);
  // If the session has ended while a page was open: the ways to log in again, shown over the page.
  const [offered, setOffered] = useState(/** @type {Session | null} */ (null));
  const wasIn = useRef(false);
  const isAsking = useRef(false);
  const [isHelpOpen, setHelpOpen] = useState(false);
  const [isPaletteOpen, setPaletteOpen] = useState(false);
  const [isSwitching, setSwitching] = useState(false);
  const [isMenuOpen, setMenuOpen] = useState(false);
  const [lang] = usePref("language", null);
  const [theme] = usePref("theme", "auto");

  const refresh = async () => {
    try {
      const now = await fetchSession();
      setSession(now);
      setProblem(null);
      setLoginWanted(now.role === null && now.scopes.length === 0);
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      setProblem(error);
    }
  };
  useEffect(() => {
    whenUnauthorized(() => {
      stop();
      if (!wasIn.current) {
        setLoginWanted(true);
        // Load the session again: the ways to log in may have changed, for example when the first user was added.
        void refresh();
      } else if (!isAsking.current) {
        isAsking.current = true;
        fetchSession().then(askAgain, () => {
          isAsking.current = false;
        });
      }
    });
    void refresh();
  }, []);
  const askAgain = (/** @type {Session} */ now) => {
    // Wait until the user stops typing, so that no key goes into the dialog.
    if (Date.now() - lastKeyMs < TYPING_MS) setTimeout(() => askAgain(now), TYPING_MS);
    else setOffered(now);
  };
  const endAsking = () => {
    isAsking.current = false;
    setOffered(null);
  };
  useEffect(() => {
    // If no master answers, it is unknown who is logged in. Ask until one answers.
    if (problem?.status !== 0) return undefined;
    const timer = setInterval(refresh, 2000);
    return () => clearInterval(timer);
  }, [problem]);
  const isIn = session !== null && !isLoginWanted;
  wasIn.current = isIn;
  useEffect(() => {
    if (isIn && may(session, "read")) {
      start();
      if (session?.has_namespaces) void loadNamespaces();
    }
  }, [isIn, session]);
  useEffect(() => {
    document.documentElement.lang = language();
    if (theme === "auto") delete document.documentElement.dataset["theme"];
    else document.documentElement.dataset["theme"] = theme;
  }, [lang, theme]);
  const page = isIn ? route.page : "login";
  const hasSeveral = useNamespaces().length > 1;
  useEffect(() => {
    if (isElsewhere(route.page)) location.replace(href(/** @type {PageName} */ (route.page), route.query));
  }, [route.page]);
  usePageTitle(page ? t(`nav.${page}`) : t("error.no_page"));
  useEffect(() => {
    setMenuOpen(false);
  }, [page, lang]);
  const oldness = useOldness();
  useShortcuts(
    () => setHelpOpen(true),
    () => setPaletteOpen(true),
  );

  if (session === null)
    return html`<main class="boot-box">${problem ? html`<${ErrorBox} problem=${problem} onRetry=${refresh} />` : html`<${Loading} />`}</main>`;
  // If there is only one namespace, show the page of namespaces only to those who may create another.
  const entries = ENTRIES.filter((entry) =>
    may(session, entry.page === "namespaces" && !hasSeveral ? "admin" : entry.scope),
  );
  const leave = async () => {
    // The session ends now: calls in progress will be refused, and must not open the login.
    isAsking.current = true;
    try {
      const elsewhere = await logOut();
      if (elsewhere) {
        stop();
        location.assign(elsewhere);
        return;
      }
    } catch {
      /* The session is over for this page anyway. */
    }
    stop();
    await refresh();
    isAsking.current = false;
  };
  return html`<a
      class="skip" href="#main" onClick=${(/** @type {Event} */ e) => {
        e.preventDefault();
        document.getElementById("main")?.focus();
      }}>
      ${t("skip")}
    </a>
    <div class=${`shell ${isMenuOpen ? "menu-open" : ""} ${isIn ? "" : "logged-out"}`}>
      <header class="top">
        ${
          isIn &&
          html`<button
              type="button" class="icon-button menu-button" aria-expanded=${String(isMenuOpen)}
              aria-controls="nav" aria-label=${t("menu")} onClick=${() => setMenuOpen(!isMenuOpen)}>
              <${Icon} name="menu" />
            </button>`
        }
        <a class="brand" href=${href("overview")}><${Logo} /> jqmaster</a>
        ${isIn && html`<${Switcher} onOpen=${() => setSwitching(true)} />`}
        ${isIn && html`<${Search} />`}
        ${
          isIn &&
          may(session, "read") &&
          html`<button
              type="button" class="icon-button palette-button" aria-haspopup="dialog"
              aria-label=${t("palette")} title=${t("palette")} onClick=${() => setPaletteOpen(true)}>
              <kbd>Ctrl K</kbd>
            </button>`
        }
        ${isIn && html`<${Connection} />`}
        <${Preferences} session=${isIn ? session : null} onLeave=${leave} onHelp=${() => setHelpOpen(true)} />
      </header>
      ${
        isIn &&
        html`<nav id="nav" class="side" aria-label=${t("nav")}>
            ${[0, 1, 2].map(
              (group) =>
                html`<ul key=${group}>
                    ${entries
                      .filter((entry) => entry.group === group)
                      .map(
                        (entry) => html`<li key=${entry.page}>
                            <a
                              href=${href(entry.page)}
                              aria-current=${
                                entry.page === page || (entry.page === "jobs" && page === "job")
                                  ? "page"
                                  : undefined
                              }>
                              <${Icon} name=${entry.page} />${t(`nav.${entry.page}`)}
                            </a>
                          </li>`,
                      )}
                  </ul>`,
            )}<${Language} class="narrow-only" />
          </nav>`
      }
      <main
        id="main" tabindex="-1" class=${oldness ? "is-old" : ""} style=${{ "--age": JSON.stringify(oldness) }}>
        ${isIn && html`<${FreshnessLine} />`}
        ${isIn && may(session, "read") && html`<${ActionsUnderWay} mayOperate=${may(session, "operate")} />`}
        ${
          page === null
            ? html`<h1>${t("error.no_page")}</h1><p><a href=${href("overview")}>${t("nav.overview")}</a></p>`
            : html`<${PageHost} key=${page} name=${page} query=${route.query} session=${session} onSession=${async (
                /** @type {Session} */ now,
              ) => {
                setSession(now);
                setLoginWanted(now.role === null && now.scopes.length === 0);
              }} />`
        }
      </main>
    </div>
    ${isSwitching && isIn && html`<${NamespaceChoice} page=${page} onClose=${() => setSwitching(false)} />`}
    ${
      isPaletteOpen &&
      isIn &&
      html`<${Palette} entries=${entries} session=${session} onHelp=${() => setHelpOpen(true)} onClose=${() => setPaletteOpen(false)} />`
    }
    ${
      offered &&
      html`<${LoginDialog} session=${offered} onSession=${(/** @type {Session} */ now) => {
        endAsking();
        setSession(now);
      }} onClose=${() => {
        endAsking();
        setSession(offered);
        setLoginWanted(true);
      }} />`
    }
    ${isHelpOpen && html`<${Help} entries=${entries} onClose=${() => setHelpOpen(false)} />`}
    <${PauseHost} />
    <${Toasts} />`;
}

/** @param {{name: PageName, query: Record<string, string>, session: Session, onSession: (session: Session) => void}} props */
function PageHost({ name, query, session, onSession }) {
  const [fault, resetFault] = useErrorBoundary();
  if (fault)
    return html`<div class="error-box" role="alert">
        <p><strong>${t("error.page")}</strong></p><pre>${visible(String(fault)).slice(0, 500)}</pre>
        <${Button} onClick=${resetFault}>${t("error.retry")}<//>
      </div>`;
  return html`<${COMPONENTS[name]} query=${query} go=${go} session=${session} onSession=${onSession} />`;
}

/** Jump to a job by its ID, or else list those whose ID or name contains the text. */
function Search() {
  const input = useRef(/** @type {HTMLInputElement | null} */ (null));
  useKeys({
    "/": () => {
      input.current?.focus();
      input.current?.select();
    },
  });
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    const text = input.current?.value.trim() ?? "";
    if (!text) return;
    if (/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text)) go("job", { id: text.toLowerCase() });
    else go("jobs", { q: text });
    input.current?.blur();
  };
  return html`<form class="search" role="search" onSubmit=${submit}>
      <input
        ref=${input} type="search" aria-label=${t("search")} placeholder=${t("search.hint")} maxlength="200"
        autocomplete="off" spellcheck=${false} />
    </form>`;
}

/** @param {{session: Session | null, onLeave: () => void, onHelp: () => void}} props */
function Preferences({ session, onLeave, onHelp }) {
  const [theme, setTheme] = usePref("theme", "auto");
  const [times, setTimes] = usePref("times", "relative");
  const next =
    /** @type {Record<string, string>} */ ({ auto: "light", light: "dark", dark: "auto" })[theme] ?? "auto";
  return html`<div class="prefs">
      <button
        type="button" class="icon-button" title=${t("times.switch")} aria-label=${t("times.switch")}
        onClick=${() =>
          setTimes(
            /** @type {Record<string, string>} */ ({ relative: "local", local: "utc" })[times] ?? "relative",
          )}>
        <${Icon} name="times" /><span class="wide-only"> ${t(`times.${times}`)}</span>
      </button>
      <button
        type="button" class="icon-button" title=${t("theme.switch", { theme: t(`theme.${theme}`) })}
        aria-label=${t("theme.switch", { theme: t(`theme.${theme}`) })} onClick=${() => setTheme(next)}>
        <${Icon} name=${theme} />
      </button>
      <${Language} class=${session ? "wide-only" : ""} />
      <button
        type="button" class="icon-button wide-only" aria-label=${t("help.keys")} title=${t("help.keys")}
        onClick=${onHelp}>
        <${Icon} name="keys" />
      </button>
      ${
        session?.method === "proxy" &&
        html`<span class="who">
            ${visible((session.who ?? "").replace(/^proxy:/, ""))} ${
              session.logout_url && html`<a href=${session.logout_url}>${t("logout")}</a>`
            }
          </span>`
      }
      ${
        session?.method === "session" &&
        html`<span class="who">
            <a href=${href("account")} title=${t("nav.account")}>
              ${visible((session.who ?? "").replace(/^(user|oidc):/, ""))}
            </a> <button type="button" class="link" onClick=${onLeave}>${t("logout")}</button>
          </span>`
      }
    </div>`;
}

/** @param {{class: string}} props */
function Language({ class: where }) {
  usePref("language", null);
  const choose = async (/** @type {import("../core/lib.js").FieldEvent} */ { target }) => {
    if (!isLanguage(target.value)) return;
    try {
      await setLanguage(target.value);
    } catch {
      target.value = language();
      toast(t("error.no_answer"), "bad");
    }
  };
  return html`<select class=${where} aria-label=${t("language")} value=${language()} onChange=${choose}>
      ${Object.entries(LANGUAGES).map(
        ([code, name]) => html`<option key=${code} value=${code} lang=${code}>${name}</option>`,
      )}
    </select>`;
}

/** @param {{entries: Entry[], onClose: () => void}} props */
function Help({ entries, onClose }) {
  const [keys, setKeys] = usePref("keys", "on");
  const rows = [
    ...entries.map((entry) => [`g ${entry.key}`, t(`nav.${entry.page}`)]),
    ["Ctrl K", t("palette")],
    ["/", t("search")],
    ["j / k", t("key.rows")],
    ["Enter", t("key.open")],
    ["x", t("key.select")],
    ["Escape", t("key.escape")],
    ["?", t("help.keys")],
  ];
  return html`<${Dialog} title=${t("help.keys")} onClose=${onClose}>
    <table class="keys"><tbody>${rows.map(([key, text]) => html`<tr key=${key}><th scope="row"><kbd>${key}</kbd></th><td>${text}</td></tr>`)}</tbody></table>
    <label class="check"><input type="checkbox" checked=${keys === "on"} onChange=${() => setKeys(keys === "on" ? "off" : "on")} /> ${t("keys.on")}</label>
  <//>`;
}

/**
 * @param {() => void} onHelp
 * @param {() => void} onPalette
 */
function useShortcuts(onHelp, onPalette) {
  const [isOn] = usePref("keys", "on");
  const prefix = useRef({ key: "", at: 0 });
  useEffect(() => {
    const press = (/** @type {KeyboardEvent} */ event) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k" && !event.altKey) {
        event.preventDefault();
        if (!document.querySelector("dialog[open]")) onPalette();
        return;
      }
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing)
        return;
      const target = event.target;
      const isTyping =
        target instanceof HTMLElement &&
        (target.isContentEditable ||
          target.matches("textarea, select, input:not([type=checkbox], [type=radio])"));
      if (event.key === "Escape" && target instanceof HTMLElement && !target.closest("dialog")) {
        for (const layer of [...keysInForce()].reverse())
          if (layer.keys["Escape"] && !isTyping) {
            layer.keys["Escape"]();
            return;
          }
        target.blur();
        return;
      }
      // Ignore Shift, which belongs to the key that follows it.
      if (event.key === "Shift") return;
      if (isTyping || isOn !== "on" || document.querySelector("dialog[open]")) return;
      const chord =
        prefix.current.key && Date.now() - prefix.current.at < CHORD_MS
          ? `${prefix.current.key} ${event.key}`
          : "";
      prefix.current = { key: event.key === "g" ? "g" : "", at: Date.now() };
      const entry = ENTRIES.find((one) => chord === `g ${one.key}`);
      if (entry) {
        event.preventDefault();
        const own = keysInForce().find((layer) => layer.keys[chord]);
        if (own) own.keys[chord]?.();
        else go(entry.page);
        return;
      }
      if (event.key === "?") {
        event.preventDefault();
        onHelp();
        return;
      }
      for (const layer of [...keysInForce()].reverse()) {
        const act = (chord && layer.keys[chord]) || layer.keys[event.key];
        if (act) {
          event.preventDefault();
          act();
          return;
        }
      }
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, [isOn]);
}

const root = document.getElementById("app");
if (root) {
  root.textContent = "";
  render(html`<${App} />`, root);
}
