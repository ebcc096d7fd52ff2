/** The dialogs that mute and delete a notice. */
import { Problem, del, post } from "../core/api.js";
import { t } from "../core/i18n.js";
import { html, useState } from "../core/lib.js";
import { go } from "../core/router.js";
import { visible } from "../core/text.js";
import { Button, ErrorBox } from "../ui/controls.js";
import { Dialog, toast } from "../ui/dialogs.js";
import { DurationField, endOf, unreadable } from "../ui/durations.js";
import { FormDialog } from "../ui/form_dialog.js";
import { Text, durationText } from "../ui/formats.js";
import { useForm } from "../ui/forms.js";

const HOUR_MS = 3_600_000;

/** @param {string} name */
export const pathOfNotice = (name) => /** @type {const} */ (`api/notices/${encodeURIComponent(name)}`);

/** @typedef {{what: "mute" | "delete", name: string, onDone: () => unknown}} Asked */

/** @type {(asked: Asked) => void} */
export let askAboutNotice = () => {};

/** All these buttons share one dialog. It does not belong to a row, because a row may disappear while somebody fills in the dialog. */
export function NoticeDialogs() {
  const [asked, setAsked] = useState(/** @type {Asked | null} */ (null));
  askAboutNotice = setAsked;
  if (!asked) return null;
  const props = { ...asked, onClose: () => setAsked(null) };
  return asked.what === "mute" ? html`<${MuteNotice} ...${props} />` : html`<${DeleteNotice} ...${props} />`;
}

/** @param {{name: string, onClose: () => void, onDone: () => unknown}} props */
function MuteNotice({ name, onClose, onDone }) {
  const form = useForm(null, () => ({ muted: durationText(HOUR_MS) }));
  const save = async (/** @type {import("../ui/forms.js").Values} */ { muted = "" }) => {
    const end = endOf(muted);
    if (end === null) throw unreadable("until");
    const until = new Date(end).toISOString();
    await post(`${pathOfNotice(name)}/mute`, { until });
    await onDone();
    return t("notices.muted.done", { name: visible(name) });
  };
  return html`<${FormDialog} title=${t("notices.mute.title")} form=${form} onClose=${onClose} onSave=${save} isNew saveLabel=${t("notices.mute")}>
    <p><strong><${Text} value=${name} max=${100} /></strong></p><p class="muted">${t("notices.mute.text")}</p>
    <${DurationField} form=${form} name="muted" label=${t("notices.mute.for")} path="until" /><//>`;
}

/** @param {{name: string, onClose: () => void}} props */
function DeleteNotice({ name, onClose }) {
  const [problem, setProblem] = useState(/** @type {Problem | null} */ (null));
  const act = async () => {
    try {
      await del(pathOfNotice(name));
      toast(t("notices.deleted", { name: visible(name) }));
      onClose();
      go("notices");
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      setProblem(error);
    }
  };
  return html`<${Dialog} title=${t("notices.delete.title")} onClose=${onClose}>
      <p>${t("notices.delete.text", { name: visible(name) })}</p><${ErrorBox} problem=${problem} />
      <footer>
        <${Button} autofocus onClick=${onClose}>${t("cancel")}<//>
        <${Button} kind="danger" onClick=${act}>${t("action.delete")}<//>
      </footer>
    <//>`;
}
