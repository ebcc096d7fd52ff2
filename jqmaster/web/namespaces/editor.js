/** The form of a namespace. Its store and tag are chosen once, when it is created. */
import { Problem, get, put } from "../core/api.js";
import { t } from "../core/i18n.js";
import { html } from "../core/lib.js";
import { visible } from "../core/text.js";
import { FormDialog } from "../ui/form_dialog.js";
import { FormField, FormMore, useForm } from "../ui/forms.js";
import { loadNamespaces } from "./known.js";

/** @typedef {import("../ui/forms.js").Values} Values */
/** @typedef {import("./known.js").Namespace} Namespace */

/** The quotas that masters obey. */
export const QUOTAS = /** @type {const} */ ([
  "waiting_jobs",
  "waiting_bytes",
  "pushes_per_s",
  "argument_bytes",
  "workers",
  "streams",
]);

/** @param {string} name The name of a namespace. */
export const pathOfNamespace = (name) => /** @type {const} */ (`api/namespaces/${encodeURIComponent(name)}`);

/** @param {string} name The name of a part of the form. */
const labelOf = (name) => t(`namespaces.${name}`);

/** @param {Namespace | null} one null: a new namespace. @returns {Values} */
const valuesOf = (one) => ({
  name: one?.name ?? "",
  title: one?.title ?? "",
  store: one?.store ?? "",
  tag: "",
  ...Object.fromEntries(QUOTAS.map((quota) => [quota, String(one?.quotas[quota] ?? "")])),
});

/** @param {Values} values @param {boolean} isNew */
function documentOf(values, isNew) {
  const text = (/** @type {string} */ name) => values[name]?.trim() ?? "";
  return {
    title: text("title"),
    ...(isNew && { store: text("store") || null, tag: text("tag") || null }),
    quotas: Object.fromEntries(QUOTAS.map((quota) => [quota, text(quota) ? Number(text(quota)) : null])),
  };
}

/**
 * @param {{one: Namespace | null, stores: string[], onClose: () => void, onDone: (name: string) => unknown}} props
 *   `one` null: a new namespace. `stores`: the names of the configured stores.
 */
export function NamespaceEditor({ one, stores, onClose, onDone }) {
  const form = useForm(one, valuesOf);
  const save = async (/** @type {Values} */ given, /** @type {Namespace | null} */ base) => {
    const name = one ? one.name : (given["name"]?.trim() ?? "");
    if (!name) {
      const msg = t("constraints.name.none");
      throw new Problem(422, { title: msg, errors: [{ loc: ["name"], msg }] });
    }
    await put(pathOfNamespace(name), documentOf(given, !one), {
      ...(base ? { "If-Match": `"${base.version}"` } : { "If-None-Match": "*" }),
    });
    await loadNamespaces();
    await onDone(name);
    return t("namespaces.saved", { name: visible(name) });
  };
  const field = (/** @type {string} */ name, /** @type {Record<string, unknown>} */ more = {}) =>
    html`<${FormField} form=${form} name=${name} label=${labelOf(name)} spellcheck=${false} ...${more} />`;
  return html`<${FormDialog}
      title=${one ? `${t("namespaces.edit")} · ${visible(one.name)}` : t("namespaces.make")} form=${form}
      onClose=${onClose} onSave=${save} isNew=${!one}
      reread=${one ? () => get(pathOfNamespace(one.name)) : undefined} labelOf=${labelOf}>
      ${!one && field("name", { hint: t("namespaces.name.rule"), maxlength: "39", autocapitalize: "none" })}
      ${field("title", { hint: t("namespaces.title.hint"), maxlength: "100", spellcheck: true })}
      ${
        !one &&
        stores.length > 1 &&
        html`<${FormField}
            form=${form} name="store" label=${labelOf("store")} as="select" hint=${t("namespaces.store.hint")}>
            ${stores.map(
              (store) =>
                html`<option key=${store} value=${store === "default" ? "" : store}>${visible(store)}</option>`,
            )}
          <//>`
      }
      <h3>${t("namespaces.quotas")}</h3><p class="muted">${t("namespaces.quotas.hint")}</p>
      ${QUOTAS.map((quota) =>
        field(quota, {
          key: quota,
          type: "number",
          min: "1",
          step: "1",
          path: `quotas.${quota}`,
          hint: t(`namespaces.${quota}.hint`),
        }),
      )}
      ${
        !one &&
        html`<${FormMore} form=${form} names=${["tag"]} problem=${form.problem} label=${t("namespaces.more")}>
            ${field("tag", { hint: t("namespaces.tag.hint"), maxlength: "64", autocapitalize: "none" })}
          <//>`
      }
    <//>`;
}
