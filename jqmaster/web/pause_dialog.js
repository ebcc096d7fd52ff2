/** Pauses a name, a tag, a constraint or one value of its key: asks why and for how long, and offers to undo it. */
import { del, post } from "./api.js";
import { t } from "./i18n.js";
import { html, useState } from "./lib.js";
import { Button } from "./ui/controls.js";
import { attempt } from "./ui/dialogs.js";
import { FormDialog } from "./ui/form_dialog.js";
import { Text, durationText } from "./ui/formats.js";
import { FormField, useForm } from "./ui/forms.js";

/** @typedef {{job_name: string} | {tag: string} | {constraint: string, value_id?: string}} PauseTarget */

const DURATIONS_S = [900, 3600, 4 * 3600, 24 * 3600, 7 * 24 * 3600];

/**
 * Ends a pause.
 * @param {string} name Of its constraint.
 * @param {() => unknown} [onDone]
 */
export const endPause = (name, onDone) =>
  attempt(() => del(`api/constraints/${encodeURIComponent(name)}`), t("pause.ended")).then(onDone);

/**
 * A button that asks before it pauses.
 * @param {{target: PauseTarget, what: string, label?: string, class?: string, onDone?: () => unknown}} props `what`: the words for what is paused.
 */
export function PauseButton({ target, what, label, class: more = "small", onDone }) {
  const [isOpen, setOpen] = useState(false);
  return html`<${Button} opensDialog class=${more} aria-label=${`${t("constraints.pause")}: ${what}`} onClick=${() => setOpen(true)}>${label ?? t("constraints.pause")}<//>
    ${isOpen && html`<${PauseDialog} target=${target} what=${what} onClose=${() => setOpen(false)} onDone=${onDone} />`}`;
}

/** @param {{target: PauseTarget, what: string, onClose: () => void, onDone?: () => unknown}} props */
export function PauseDialog({ target, what, onClose, onDone }) {
  const form = useForm(null, () => ({ reason: "", duration_s: "3600" }));
  const save = async (/** @type {import("./ui/forms.js").Values} */ { reason, duration_s }) => {
    const made = await post("api/pauses", {
      ...target,
      reason,
      ...(duration_s && { duration_s: Number(duration_s) }),
    });
    await onDone?.();
    return { text: t("pause.begun", { what }), undo: () => endPause(made.name, onDone) };
  };
  return html`<${FormDialog} title=${t("pause.title")} form=${form} onClose=${onClose} onSave=${save} isNew saveLabel=${t("constraints.pause")}>
    <p><strong><${Text} value=${what} max=${200} /></strong></p><p class="muted">${t("pause.text")}</p>
    <${FormField} form=${form} name="reason" label=${t("pause.reason")} hint=${t("pause.reason.hint")} maxlength="500" />
    <${FormField} form=${form} name="duration_s" as="select" label=${t("pause.duration")}>${DURATIONS_S.map((seconds) => html`<option key=${seconds} value=${String(seconds)}>${durationText(seconds * 1000)}</option>`)}<option value="">${t("pause.forever")}</option><//><//>`;
}
