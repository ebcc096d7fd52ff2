/** Pauses a name, a tag, a constraint or one value of its key: asks why and for how long, and offers to undo it. */
import { del, post } from "../core/api.js";
import { t } from "../core/i18n.js";
import { html, useState } from "../core/lib.js";
import { visible } from "../core/text.js";
import { Button } from "../ui/controls.js";
import { attempt } from "../ui/dialogs.js";
import { DurationField, endOf, unreadable } from "../ui/durations.js";
import { FormDialog } from "../ui/form_dialog.js";
import { Text, durationText, nowMs } from "../ui/formats.js";
import { FormField, useForm } from "../ui/forms.js";
import { Icon } from "../ui/icons.js";

const HOUR_MS = 3_600_000;

/** @typedef {{job_name: string} | {tag: string} | {constraint: string, value_id?: string}} PauseTarget */

/**
 * Ends a pause.
 * @param {string} name The name of the pause's constraint.
 * @param {() => unknown} [onDone]
 */
export const endPause = (name, onDone) =>
  attempt(() => del(`api/constraints/${encodeURIComponent(name)}`), t("pause.ended")).then(onDone);

/**
 * A button that asks before it pauses.
 * @param {{target: PauseTarget, what: string, label?: string, class?: string, isIcon?: boolean, onDone?: () =>
 *   unknown}} props `what`: the words for what is paused.
 *   `isIcon`: show only the icon, for the rows of lists.
 */
export function PauseButton({ target, what, label, class: more = "small", isIcon = false, onDone }) {
  const name = `${t("constraints.pause")}: ${what}`;
  const open = () => ask({ target, what, ...(onDone && { onDone }) });
  return isIcon
    ? html`<button
        type="button" class="icon-button row-action" aria-haspopup="dialog" aria-label=${name} title=${name}
        onClick=${open}>
        <${Icon} name="pause" />
      </button>`
    : html`<${Button} opensDialog class=${more} aria-label=${name} onClick=${open}>${label ?? t("constraints.pause")}<//>`;
}

/** @typedef {{target: PauseTarget, what: string, onDone?: () => unknown}} Asked */

/** @type {(asked: Asked) => void} */
let ask = () => {};

/** All these buttons share one dialog. It does not belong to a row, because a row may disappear while the dialog is open. */
export function PauseHost() {
  const [asked, setAsked] = useState(/** @type {Asked | null} */ (null));
  ask = setAsked;
  return asked && html`<${PauseDialog} ...${asked} onClose=${() => setAsked(null)} />`;
}

/**
 * @template Row
 * @param {(row: Row) => import("../core/lib.js").Node} render
 * @returns {import("../ui/tables.js").Column<Row>} The column with the pause buttons of the rows.
 */
export const pauseColumn = (render) => ({
  key: "pause",
  label: html`<span class="sr">${t("pause.row")}</span>`,
  width: 2.9,
  priority: 2,
  render,
});

/** @param {{name: string}} props Pauses the jobs of a name. */
export const PauseName = ({ name }) =>
  html`<${PauseButton} isIcon target=${{ job_name: name }} what=${t("pause.what.name", { name: visible(name) })} />`;

/** @param {{target: PauseTarget, what: string, onClose: () => void, onDone?: () => unknown}} props */
export function PauseDialog({ target, what, onClose, onDone }) {
  const form = useForm(null, () => ({ reason: "", lasts: durationText(HOUR_MS) }));
  const save = async (/** @type {import("../ui/forms.js").Values} */ { reason, lasts = "" }) => {
    const end = endOf(lasts);
    if (lasts.trim() && end === null) throw unreadable("duration_s");
    const made = await post("api/pauses", {
      ...target,
      reason,
      ...(end !== null && { duration_s: Math.ceil((end - nowMs()) / 1000) }),
    });
    await onDone?.();
    return { text: t("pause.begun", { what }), undo: () => endPause(made.name, onDone) };
  };
  return html`<${FormDialog} title=${t("pause.title")} form=${form} onClose=${onClose} onSave=${save} isNew saveLabel=${t("constraints.pause")}>
    <p><strong><${Text} value=${what} max=${200} /></strong></p><p class="muted">${t("pause.text")}</p>
    <${FormField} form=${form} name="reason" label=${t("pause.reason")} hint=${t("pause.reason.hint")} maxlength="500" />
    <${DurationField} form=${form} name="lasts" label=${t("pause.duration")} empty=${t("pause.forever")} path="duration_s" /><//>`;
}
