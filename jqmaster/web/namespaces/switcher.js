/** The namespace in the header, and the menu that switches to another one. */
import { t } from "../core/i18n.js";
import { html, useState } from "../core/lib.js";
import { DEFAULT, addressOf, namespace } from "../core/namespaces.js";
import { href, isOfInstallation } from "../core/router.js";
import { visible } from "../core/text.js";
import { Dialog } from "../ui/dialogs.js";
import { Badge } from "../ui/formats.js";
import { useKeys } from "../ui/keys.js";
import { loadNamespaces, useNamespaces } from "./known.js";

/** @typedef {import("../core/lib.js").FieldEvent} FieldEvent */
/** @typedef {import("../core/router.js").PageName} PageName */

/** @param {{onOpen: () => void}} props Shows nothing if there is only one namespace. */
export function Switcher({ onOpen }) {
  const hasOthers = useNamespaces().length > 1;
  const open = () => {
    onOpen();
    void loadNamespaces();
  };
  useKeys(hasOthers ? { "g N": open } : {});
  const name = visible(namespace || DEFAULT);
  if (!hasOthers)
    return namespace ? html`<span class="namespace" title=${t("namespaces.one")}>${name}</span>` : null;
  return html`<button
      type="button" class="button small namespace" aria-haspopup="dialog"
      aria-label=${t("namespaces.switch.now", { name })} title=${t("namespaces.switch")} onClick=${open}>
      ${name} ▾
    </button>`;
}

/** @param {PageName | null} page @returns {string} The address of the same page in another namespace, without the object that it shows here. */
const pageElsewhere = (page) =>
  page === null || page === "login" || isOfInstallation(page)
    ? "#/overview"
    : `#/${page === "job" ? "jobs" : page}`;

/** @param {{page: PageName | null, onClose: () => void}} props `page`: the shown page. */
export function NamespaceChoice({ page, onClose }) {
  const namespaces = useNamespaces();
  const [text, setText] = useState("");
  const wanted = text.trim().toLowerCase();
  const found = namespaces.filter(({ name, title }) => `${name}\n${title}`.toLowerCase().includes(wanted));
  const first = found.find((one) => one.name === wanted) ?? found[0];
  const addressIn = (/** @type {string} */ name) => addressOf(name, pageElsewhere(page));
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (first) location.assign(addressIn(first.name));
  };
  return html`<${Dialog} title=${t("namespaces.switch")} onClose=${onClose}>
      <form class="stack" onSubmit=${submit}>
        <input
          type="search" name="namespace" autofocus aria-label=${t("namespaces.find")}
          placeholder=${t("namespaces.find")} maxlength="100" autocomplete="off" autocapitalize="none"
          spellcheck=${false} value=${text}
          onInput=${(/** @type {FieldEvent} */ event) => setText(event.target.value)} />
        <ul class="switcher" aria-label=${t("nav.namespaces")}>
          ${found.map(
            ({ name, title, state }) =>
              html`<li key=${name}>
                  <a
                    href=${addressIn(name)}
                    aria-current=${name === (namespace || DEFAULT) ? "true" : undefined} onClick=${onClose}>
                    ${visible(name)}
                  </a> <span class="muted">${visible(title)}</span> ${
                    state !== "open" && html`<${Badge} kind="off">${t(`namespaces.state.${state}`)}<//>`
                  }
                </li>`,
          )}
        </ul>
        ${found.length === 0 && html`<p class="muted" role="status">${t("namespaces.find.none")}</p>`}
        <p><a href=${href("namespaces")} onClick=${onClose}>${t("namespaces.all")}</a></p>
      </form>
    <//>`;
}
