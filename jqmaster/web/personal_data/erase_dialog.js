/** The dialog that erases values or the log of a job that is over. */
import { del, post } from "../core/api.js";
import { t } from "../core/i18n.js";
import { html } from "../core/lib.js";
import { FormDialog } from "../ui/form_dialog.js";
import { Id, Text } from "../ui/formats.js";
import { useForm } from "../ui/forms.js";

/** @typedef {import("../ui/forms.js").Values} Values */

const LOG = "log";

/**
 * @param {{id: string, fields: readonly string[], onClose: () => void, onDone: (erased: string[]) => unknown}} props
 *   `fields`: paths of values; `log` stands for the log.
 */
export function EraseDialog({ id, fields, onClose, onDone }) {
  const form = useForm(null, () => Object.fromEntries(fields.map((field) => [field, "yes"])));
  const path = /** @type {const} */ (`api/jobs/${encodeURIComponent(id)}`);
  const chosen = fields.filter((field) => form.values[field] === "yes");
  const save = async (/** @type {Values} */ values) => {
    const erased = fields.filter((field) => values[field] === "yes");
    const parts = erased.filter((field) => field !== LOG);
    if (parts.length > 0) await post(`${path}/erase`, { fields: parts });
    if (erased.includes(LOG)) await del(`${path}/logs`);
    await onDone(erased);
    return t("personal.erased", { count: erased.length });
  };
  const isNeeded = chosen.some((field) => /^(argument|headers)/.test(field));
  return html`<${FormDialog} title=${t("personal.erase.title")} form=${form} onClose=${onClose} onSave=${save} isNew saveLabel=${t("personal.erase")}>
    <p>${t("personal.erase.text")} <${Id} id=${id} /></p>
    <fieldset class="stack"><legend>${t("personal.erase.what")}</legend>${fields.map(
      (field) =>
        html`<label class="check" key=${field}><input ...${form.check(field)} /> <code><${Text} value=${field} max=${200} /></code></label>`,
    )}</fieldset>
    ${isNeeded && html`<p class="warn-text">${t("personal.erase.needed")}</p>`}
    <p class="muted">${t("personal.erase.copies")}</p><//>`;
}
