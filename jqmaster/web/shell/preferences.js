/** How this browser shows the pages: times, theme and language; and who is logged in. */
import { html } from "../core/lib.js";
import { LANGUAGES, isLanguage, language, setLanguage, t } from "../core/i18n.js";
import { usePref } from "../core/prefs.js";
import { href } from "../core/router.js";
import { visible } from "../core/text.js";
import { toast } from "../ui/dialogs.js";
import { Icon } from "../ui/icons.js";

/** @param {{session: import("../core/api.js").Session | null, onLeave: () => void, onHelp: () => void}} props */
export function Preferences({ session, onLeave, onHelp }) {
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
export function Language({ class: where }) {
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
