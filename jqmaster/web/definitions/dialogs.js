/** The actions on one definition: pause, resume, run now, backfill, delete. */
import { Problem, del, post } from "../core/api.js";
import { t } from "../core/i18n.js";
import { html, useEffect, useState } from "../core/lib.js";
import { usePref } from "../core/prefs.js";
import { go } from "../core/router.js";
import { visible } from "../core/text.js";
import { Button, ErrorBox } from "../ui/controls.js";
import { ConfirmCount, Dialog, attempt, toast } from "../ui/dialogs.js";
import { Text, instantText, nowMs } from "../ui/formats.js";
import { FormDialog } from "../ui/form_dialog.js";
import { FormCheck, FormField, useForm } from "../ui/forms.js";
import { Icon } from "../ui/icons.js";
import { LATEST, inZone, inputOf, instantIn, useZone } from "../ui/instants.js";

/** @typedef {import("../../answers").Schemas["DefinitionView"]} Definition */

/** @typedef {import("../ui/forms.js").Values} Values */

const DAY_MS = 86_400_000;

/** @template {"resume" | "run" | "pause" | "backfill"} Act @param {string} name @param {Act} act */
const pathOf = (name, act) => /** @type {const} */ (`api/definitions/${encodeURIComponent(name)}/${act}`);

/** @param {string} name @param {() => unknown} onDone */
export const resumeDefinition = (name, onDone) =>
  attempt(() => post(pathOf(name, "resume")), t("definitions.resumed", { name: visible(name) })).then(onDone);

/** @param {string} name @param {() => unknown} onDone Starts the job of the definition once, now, and offers to cancel the job. */
export async function runDefinition(name, onDone) {
  let id = "";
  const isDone = await attempt(async () => ({ id } = await post(pathOf(name, "run"))), "");
  if (!isDone) return;
  toast(t("definitions.run.done", { name: visible(name), id: visible(id.slice(-10)) }), "ok", () =>
    attempt(() => post(`api/jobs/${encodeURIComponent(id)}/cancel`), t("definitions.run.undone")),
  );
  await onDone();
}

/** @typedef {{what: "pause" | "run" | "delete" | "backfill", name: string, zone?: string, onDone: () => unknown}} Asked */

/** @type {(asked: Asked) => void} */
export let askAbout = () => {};

/** All these buttons share one dialog. It does not belong to a row, because a row may disappear while somebody fills in the dialog. */
export function DefinitionDialogs() {
  const [asked, setAsked] = useState(/** @type {Asked | null} */ (null));
  askAbout = setAsked;
  if (!asked) return null;
  const props = { ...asked, onClose: () => setAsked(null) };
  switch (asked.what) {
    case "pause":
      return html`<${PauseDefinition} ...${props} />`;
    case "backfill":
      return html`<${Backfill} ...${props} />`;
    case "delete":
      return html`<${DeleteDefinition} ...${props} />`;
    default:
      return html`<${RunDefinition} ...${props} />`;
  }
}

/**
 * The actions of a row. A definition that events start has no button to run it, because an event runs it.
 * @param {{one: Definition, onDone: () => unknown}} props
 */
export function RowActions({ one, onDone }) {
  const { name } = one;
  const pause = `${t("constraints.pause")}: ${visible(name)}`;
  const resume = `${t("constraints.unpause")}: ${visible(name)}`;
  const run = `${t("definitions.run")}: ${visible(name)}`;
  return html`<span class="row-actions">
      ${
        one.enabled
          ? html`<button
              type="button" class="icon-button row-action" aria-haspopup="dialog" aria-label=${pause}
              title=${pause} onClick=${() => askAbout({ what: "pause", name, onDone })}>
              <${Icon} name="pause" />
            </button>`
          : html`<button
              type="button" class="icon-button row-action" aria-label=${resume} title=${resume}
              onClick=${() => resumeDefinition(name, onDone)}>
              <${Icon} name="resume" />
            </button>`
      }${
        one.kind === "time"
          ? html`<button
              type="button" class="icon-button row-action" aria-haspopup="dialog" aria-label=${run}
              title=${run} onClick=${() => askAbout({ what: "run", name, onDone })}>
              <${Icon} name="run" />
            </button>`
          : html`<span class="row-action"></span>`
      }
    </span>`;
}

/** @param {{name: string, onClose: () => void, onDone: () => unknown}} props */
function PauseDefinition({ name, onClose, onDone }) {
  const form = useForm(null, () => ({ reason: "" }));
  const save = async (/** @type {Values} */ { reason }) => {
    await post(pathOf(name, "pause"), { reason });
    await onDone();
    const text = t("definitions.paused", { name: visible(name) });
    return { text, undo: () => resumeDefinition(name, onDone) };
  };
  return html`<${FormDialog} title=${t("definitions.pause.title")} form=${form} onClose=${onClose} onSave=${save} isNew saveLabel=${t("constraints.pause")}>
    <p><strong><${Text} value=${name} max=${100} /></strong></p><p class="muted">${t("definitions.pause.text")}</p>
    <${FormField} form=${form} name="reason" label=${t("pause.reason")} hint=${t("pause.reason.hint")} maxlength="500" /><//>`;
}

/** @param {{name: string, onClose: () => void, onDone: () => unknown}} props */
function RunDefinition({ name, onClose, onDone }) {
  return html`<${ConfirmCount}
      title=${t("definitions.run.title")} count=${1} verb=${t("definitions.run")} kind="primary"
      onClose=${onClose} onConfirm=${() => runDefinition(name, onDone)}>
      <p><strong><${Text} value=${name} max=${100} /></strong></p><p>${t("definitions.run.text")}</p>
    <//>`;
}

/** @param {{name: string, onClose: () => void, onDone: () => unknown}} props */
function DeleteDefinition({ name, onClose }) {
  const [problem, setProblem] = useState(/** @type {Problem | null} */ (null));
  const act = async () => {
    try {
      await del(`api/definitions/${encodeURIComponent(name)}`);
      toast(t("definitions.deleted", { name: visible(name) }));
      onClose();
      go("definitions");
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      setProblem(error);
    }
  };
  return html`<${Dialog} title=${t("definitions.delete.title")} onClose=${onClose}>
      <p>${t("definitions.delete.text", { name: visible(name) })}</p><${ErrorBox} problem=${problem} />
      <footer>
        <${Button} autofocus onClick=${onClose}>${t("cancel")}<//>
        <${Button} kind="danger" onClick=${act}>${t("action.delete")}<//>
      </footer>
    <//>`;
}

/**
 * The dialog that starts the missing jobs of a range: it counts the instants that started no job, and runs them.
 * @param {{name: string, onClose: () => void, onDone: () => unknown}} props
 */
function Backfill({ name, onClose, onDone }) {
  useZone();
  const [times] = usePref("times", "relative");
  const form = useForm(null, () => ({
    from: inputOf(new Date(nowMs() - DAY_MS).toISOString()).slice(0, 16) + ":00",
    to: inputOf(new Date(nowMs()).toISOString()).slice(0, 16) + ":00",
    also_forgotten: "",
  }));
  const range = {
    from: instantIn(form.values["from"] ?? ""),
    to: instantIn(form.values["to"] ?? ""),
  };
  const { found, problem: uncounted } = useMissing(name, range);
  const missing = found ? found.due - found.fired_before : 0;
  const forgotten = found?.forgotten ?? 0;
  const isAsked = form.values["also_forgotten"] === "yes";
  const save = async () => {
    if (!found || missing === 0)
      throw new Problem(422, { title: t(found ? "definitions.backfill.none" : "action.counting") });
    if (forgotten > 0 && !isAsked) throw new Problem(422, { title: t("definitions.backfill.choose") });
    const done = await post(pathOf(name, "backfill"), {
      ...range,
      ...(forgotten > 0 && { also_forgotten: true }),
    });
    await onDone();
    return t("definitions.backfill.done", { count: done.started ?? 0 });
  };
  const problem = form.problem ?? uncounted;
  return html`<${FormDialog}
      title=${t("definitions.backfill.title")} form=${form} onClose=${onClose} onSave=${save} isNew
      saveLabel=${
        missing > 0 ? t("definitions.backfill.start", { count: missing }) : t("definitions.backfill")
      }>
      <p><strong><${Text} value=${name} max=${100} /></strong></p>
      <p class="muted">${t("definitions.backfill.text")}</p>
      <div class="form-grid">
        ${["from", "to"].map(
          (part) =>
            html`<${FormField}
                key=${part} form=${form} name=${part} problem=${problem}
                label=${inZone(t(`definitions.backfill.${part}`))} type="datetime-local" step="1"
                max=${LATEST} />`,
        )}
      </div>
      <p role="status" class="confirm-count">
        ${
          found
            ? html`<strong class="num">${missing}</strong> ${t("definitions.backfill.count", { count: missing, due: found.due, before: found.fired_before })}`
            : uncounted
              ? "–"
              : t("action.counting")
        }
      </p>
      ${
        forgotten > 0 &&
        html`<p class="warning" role="note">
            ${t("definitions.backfill.forgotten", {
              count: forgotten,
              until: instantText(Date.parse(found?.forgotten_until ?? ""), times),
            })}
          </p>
          <${FormCheck} form=${form} name="also_forgotten">
            <span>${t("definitions.backfill.also_forgotten")}</span>
          <//>`
      }
    <//>`;
}

/**
 * Count the instants of a range that started no job, a moment after the last key.
 * @param {string} name
 * @param {{from: string, to: string}} range
 * @returns {{found: import("../../answers").Schemas["BackfillAnswer"] | null, problem: Problem | null}} Both are null
 *   while the answer is unknown.
 */
function useMissing(name, range) {
  const asked = JSON.stringify(range);
  const unknown = { of: asked, found: null, problem: null };
  const [counted, setCounted] = useState(
    /** @type {ReturnType<typeof useMissing> & {of: string}} */ (unknown),
  );
  useEffect(() => {
    let isOver = false;
    const timer = setTimeout(() => {
      post(pathOf(name, "backfill"), { ...range, dry_run: true }).then(
        (found) => !isOver && setCounted({ of: asked, found, problem: null }),
        (error) =>
          !isOver && setCounted({ of: asked, found: null, problem: error instanceof Problem ? error : null }),
      );
    }, 300);
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [asked]);
  return counted.of === asked ? counted : unknown;
}
