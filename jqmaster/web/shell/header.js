/** The bar at the top of every page: the menu, the search, the palette, the preferences. */
import { may } from "../core/api.js";
import { t } from "../core/i18n.js";
import { html, useRef } from "../core/lib.js";
import { go, href } from "../core/router.js";
import { Switcher } from "../namespaces/switcher.js";
import { Icon, Logo } from "../ui/icons.js";
import { useKeys } from "../ui/keys.js";
import { Connection } from "./freshness_line.js";
import { Preferences } from "./preferences.js";

/**
 * @param {{session: import("../core/api.js").Session | null, isMenuOpen: boolean, onMenu: () => void, onSwitch: () => void,
 *   onPalette: () => void, onHelp: () => void, onLeave: () => void}} props `session`: null while nobody is logged in.
 */
export function Header({ session, isMenuOpen, onMenu, onSwitch, onPalette, onHelp, onLeave }) {
  return html`<header class="top">
      ${
        session &&
        html`<button
            type="button" class="icon-button menu-button" aria-expanded=${String(isMenuOpen)}
            aria-controls="nav" aria-label=${t("menu")} onClick=${onMenu}>
            <${Icon} name="menu" />
          </button>`
      }
      <a class="brand" href=${href("overview")}><${Logo} /> jqmaster</a>
      ${session && html`<${Switcher} onOpen=${onSwitch} />`}
      ${session && html`<${Search} />`}
      ${
        may(session, "read") &&
        html`<button
            type="button" class="icon-button palette-button" aria-haspopup="dialog"
            aria-label=${t("palette")} title=${t("palette")} onClick=${onPalette}>
            <kbd>Ctrl K</kbd>
          </button>`
      }
      ${session && html`<${Connection} />`}
      <${Preferences} session=${session} onLeave=${onLeave} onHelp=${onHelp} />
    </header>`;
}

/** Open the job with this ID. For any other text, list the jobs with the text in their ID or name. */
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
