/**
 * Log in by token, or by user and password if there are users. The address stays, so that people see the page that they
 * opened.
 */
import { html, useEffect, useRef, useState } from "../../core/lib.js";
import { Problem, fetchSession, logIn, urlOf } from "../../core/api.js";
import { t } from "../../core/i18n.js";
import { parseRoute } from "../../core/router.js";
import { Button, ErrorBox } from "../../ui/controls.js";
import { Dialog } from "../../ui/dialogs.js";
import { Field } from "../../ui/forms.js";
import { visible } from "../../core/text.js";

/**
 * @typedef {{session: import("../../core/api.js").Session, onSession: (session: import("../../core/api.js").Session) => void}} LoginProps
 *   `session`: says how to log in.
 */

/** The words for a failed login through the provider that the address may contain. The page does not trust any other text in the address. */
const PROBLEMS = [
  "login_expired",
  "login_denied",
  "id_token_invalid",
  "no_role",
  "no_login_name",
  "provider_unavailable",
  "too_many_logins",
  "store_unavailable",
];

/** Matches the page of a challenge, which somebody wanted to answer before the login. After the login, the page opens no other kind of address. */
const QUESTION = /^callbacks\/[A-Za-z0-9_-]{54}$/;

/** @returns {string | null} The address that the page opens after the login, as the address of this page names it. */
function questionAfter() {
  const { page, query } = parseRoute(location.hash);
  const then = page === "login" ? query["then"] : undefined;
  return then !== undefined && QUESTION.test(then) ? then : null;
}

/** @param {LoginProps & {query: Record<string, string>}} props */
export function Page({ session, query, onSession }) {
  const question = questionAfter();
  const isIn = session.role !== null;
  useEffect(() => {
    // A provider or a proxy has sent the user back to this page after the login: go to the question that the user
    // wanted to answer.
    if (isIn && question !== null) location.replace(urlOf(question));
  }, [isIn, question]);
  const problem = location.hash.startsWith("#/login") ? query["problem"] : undefined;
  return html`<div class="login card"><h1>${t("nav.login")}</h1>
    ${problem && html`<div class="error-box" role="alert"><p>${t(PROBLEMS.includes(problem) ? `login.problem.${problem}` : "login.problem")}</p></div>`}
    <${ByProvider} session=${session} /><${LoginForm} session=${session} onSession=${onSession} /></div>`;
}

/**
 * The login that opens over a page after its session has ended. The page keeps the text that the user has typed.
 * @param {LoginProps & {onClose: () => void}} props
 */
export function LoginDialog({ session, onSession, onClose }) {
  return html`<${Dialog} title=${t("login.again")} onClose=${onClose}>
      <p>${t("login.again.text")}</p><${ByProvider} session=${session} onSession=${onSession} />
      <${LoginForm} session=${session} onSession=${onSession} />
    <//>`;
}

/**
 * @param {{session: LoginProps["session"], onSession?: LoginProps["onSession"]}} props
 *   `onSession`: the page stays open: the provider opens in a new tab, and the page checks the session when the user
 *   comes back.
 */
function ByProvider({ session, onSession }) {
  useEffect(() => {
    if (!onSession) return undefined;
    const look = async () => {
      try {
        const now = await fetchSession();
        if (now.role !== null) onSession(now);
      } catch {
        /* Ignore the failure: the page checks again when it gets the focus again. */
      }
    };
    addEventListener("focus", look);
    return () => removeEventListener("focus", look);
  }, []);
  const elsewhere = { target: onSession ? "_blank" : undefined, rel: onSession ? "noopener" : undefined };
  const proxy =
    session.login_url !== null &&
    html`<p><a class="button primary" href=${session.login_url} ...${elsewhere}>${t("login.proxy")}</a></p>`;
  if (session.login_provider === null) return proxy;
  const page = location.hash.startsWith("#/login") && questionAfter() === null ? "" : location.hash;
  return html`${proxy}
    <p>
      <a class="button primary" href=${urlOf("api/login/oidc", { page })} ...${elsewhere}>
        ${t("login.provider", { name: visible(session.login_provider) })}
      </a>
    </p>`;
}

/** @param {LoginProps} props */
function LoginForm({ session, onSession }) {
  const [chosen, setByUser] = useState(/** @type {boolean | null} */ (null));
  const isByUser = session.login_by_user && chosen !== false;
  const [problem, setProblem] = useState(/** @type {Problem | null} */ (null));
  const [isBusy, setBusy] = useState(false);
  const form = useRef(/** @type {HTMLFormElement | null} */ (null));
  useEffect(() => {
    form.current?.querySelector("input")?.focus();
  }, [isByUser]);
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const data = new FormData(form.current ?? undefined);
    const field = (/** @type {string} */ name) => String(data.get(name) ?? "");
    setBusy(true);
    setProblem(null);
    try {
      const now = await logIn(
        isByUser ? { user: field("user"), password: field("password") } : { token: field("token").trim() },
      );
      const question = questionAfter();
      if (question !== null) {
        location.assign(urlOf(question));
        return;
      }
      onSession(now);
      // If the user opened the login page itself, go to the overview.
      if (location.hash.startsWith("#/login")) location.hash = "#/overview";
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      setProblem(error);
      setBusy(false);
    }
  };
  return html`${
    session.login_by_user &&
    html`<div class="row" role="group" aria-label=${t("login.by")}>
      <${Button} class="small" aria-pressed=${String(isByUser)} onClick=${() => setByUser(true)}>${t("login.by_user")}<//>
      <${Button} class="small" aria-pressed=${String(!isByUser)} onClick=${() => setByUser(false)}>${t("login.by_token")}<//></div>`
  }
    <form ref=${form} onSubmit=${submit} class="stack">
      ${
        isByUser
          ? html`<${Field} key="user" label=${t("login.user")} problem=${problem} path="user">
              ${(/** @type {Record<string, unknown>} */ a) =>
                html`<input ...${a} name="user" required maxlength="200" autocomplete="username" autocapitalize="none" spellcheck=${false} />`}
            <//>
            <${Field} key="password" label=${t("login.password")} problem=${problem} path="password">
              ${(/** @type {Record<string, unknown>} */ a) =>
                html`<input ...${a} name="password" type="password" required maxlength="1024" autocomplete="current-password" />`}
            <//>`
          : html`<${Field}
              key="token" label=${t("login.token")} hint=${t("login.token.hint")} problem=${problem}
              path="token">
              ${(/** @type {Record<string, unknown>} */ a) =>
                html`<input ...${a} name="token" type="password" required maxlength="512" autocomplete="off" spellcheck=${false} />`}
            <//>`
      }
      <${ErrorBox} problem=${problem} />
      <button class="button primary" disabled=${isBusy}>${t("nav.login")}</button>
    </form>`;
}
