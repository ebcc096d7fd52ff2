/** The shell: the current page, the navigation, and the dialogs over every page. */
import { html, render, useEffect, useErrorBoundary, useState } from "../core/lib.js";
import { may } from "../core/api.js";
import { ActionsUnderWay } from "../jobs/actions.js";
import { language, t } from "../core/i18n.js";
import { FreshnessLine, useOldness } from "./freshness_line.js";
import { Header } from "./header.js";
import { useNamespaces } from "../namespaces/known.js";
import { NamespaceChoice } from "../namespaces/switcher.js";
import { Palette } from "./palette.js";
import { PauseHost } from "../constraints/pause_dialog.js";
import { usePref } from "../core/prefs.js";
import { Language } from "./preferences.js";
import { go, href, isElsewhere, useRoute } from "../core/router.js";
import { useSession } from "./session.js";
import { Help, useShortcuts } from "./shortcuts.js";
import { Button, ErrorBox, Loading } from "../ui/controls.js";
import { Toasts } from "../ui/dialogs.js";
import { Icon } from "../ui/icons.js";
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

/** @type {Entry[]} The navigation: each page with the key that follows `g`. */
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
  const { session, problem, isIn, offered, refresh, enter, enterAgain, decline, leave } = useSession();
  const [isHelpOpen, setHelpOpen] = useState(false);
  const [isPaletteOpen, setPaletteOpen] = useState(false);
  const [isSwitching, setSwitching] = useState(false);
  const [isMenuOpen, setMenuOpen] = useState(false);
  const lang = useAppearance();
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
  const openHelp = () => setHelpOpen(true);
  const openPalette = () => setPaletteOpen(true);
  useShortcuts(ENTRIES, openHelp, openPalette);

  if (session === null)
    return html`<main class="boot-box">${problem ? html`<${ErrorBox} problem=${problem} onRetry=${refresh} />` : html`<${Loading} />`}</main>`;
  // If there is only one namespace, show the page of namespaces only to people who may create another one.
  const entries = ENTRIES.filter((entry) =>
    may(session, entry.page === "namespaces" && !hasSeveral ? "admin" : entry.scope),
  );
  return html`<a
      class="skip" href="#main" onClick=${(/** @type {Event} */ e) => {
        e.preventDefault();
        document.getElementById("main")?.focus();
      }}>
      ${t("skip")}
    </a>
    <div class=${`shell ${isMenuOpen ? "menu-open" : ""} ${isIn ? "" : "logged-out"}`}>
      <${Header}
        session=${isIn ? session : null} isMenuOpen=${isMenuOpen} onMenu=${() => setMenuOpen(!isMenuOpen)}
        onSwitch=${() => setSwitching(true)} onPalette=${openPalette} onHelp=${openHelp} onLeave=${leave} />
      ${isIn && html`<${Navigation} entries=${entries} page=${page} />`}
      <main
        id="main" tabindex="-1" class=${oldness ? "is-old" : ""} style=${{ "--age": JSON.stringify(oldness) }}>
        ${isIn && html`<${FreshnessLine} />`}
        ${isIn && may(session, "read") && html`<${ActionsUnderWay} mayOperate=${may(session, "operate")} />`}
        ${
          page === null
            ? html`<h1>${t("error.no_page")}</h1><p><a href=${href("overview")}>${t("nav.overview")}</a></p>`
            : html`<${PageHost} key=${page} name=${page} query=${route.query} session=${session} onSession=${enter} />`
        }
      </main>
    </div>
    ${isSwitching && isIn && html`<${NamespaceChoice} page=${page} onClose=${() => setSwitching(false)} />`}
    ${
      isPaletteOpen &&
      isIn &&
      html`<${Palette} entries=${entries} session=${session} onHelp=${openHelp} onClose=${() => setPaletteOpen(false)} />`
    }
    ${offered && html`<${LoginDialog} session=${offered} onSession=${enterAgain} onClose=${decline} />`}
    ${isHelpOpen && html`<${Help} entries=${entries} onClose=${() => setHelpOpen(false)} />`}
    <${PauseHost} />
    <${Toasts} />`;
}

/** Give the page the language and the theme that the user has chosen. Returns the language. */
function useAppearance() {
  const [lang] = usePref("language", null);
  const [theme] = usePref("theme", "auto");
  useEffect(() => {
    document.documentElement.lang = language();
    if (theme === "auto") delete document.documentElement.dataset["theme"];
    else document.documentElement.dataset["theme"] = theme;
  }, [lang, theme]);
  return lang;
}

/** @param {{entries: Entry[], page: PageName | null}} props */
function Navigation({ entries, page }) {
  return html`<nav id="nav" class="side" aria-label=${t("nav")}>
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
    </nav>`;
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

const root = document.getElementById("app");
if (root) {
  root.textContent = "";
  render(html`<${App} />`, root);
}
