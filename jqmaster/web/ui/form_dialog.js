/**
 * A form in a dialog. It reports what it saved, shows both versions if somebody else saved first, and asks before it
 * discards input.
 */
import { Problem } from "../core/api.js";
import { t } from "../core/i18n.js";
import { html, useEffect, useId, useLayoutEffect, useRef, useState } from "../core/lib.js";
import { Button, ErrorBox } from "./controls.js";
import { Dialog, toast } from "./dialogs.js";
import { Text } from "./formats.js";

/** @typedef {import("../core/lib.js").Node} Node */
/** @typedef {import("./forms.js").FormInputs} Form */

/**
 * @template Document
 * @param {{title: string, form: import("./forms.js").Form<Document>, onSave: (values: import("./forms.js").Values,
 *   base: Document) => Promise<string | {text: string, undo: () => unknown}>, onClose: () => void,
 *   reread?: () => Promise<Document>, labelOf?: (name: string) => string, isNew?: boolean, staysOpen?: boolean,
 *   saveLabel?: string, isWide?: boolean, more?: Node, children?: Node}} props
 *   `onSave`: returns the sentence that says what was done, perhaps with an undo. `base`: the document with the version
 *   that the request names in If-Match. `reread`: returns the newest document, called when the master answers 412.
 *   `isNew`: there is no document yet, so unchanged values are sent, too. `staysOpen`: after saving, the caller shows
 *   the created object in place of the form. `more`: buttons before Save.
 */
export function FormDialog({
  title,
  form,
  onSave,
  onClose,
  reread,
  labelOf = (name) => name,
  isNew = false,
  staysOpen = false,
  saveLabel,
  isWide = false,
  more,
  children,
}) {
  const [isAsking, setAsking] = useState(false);
  const box = useRef(/** @type {HTMLFormElement | null} */ (null));
  const isDirty = form.changed.length > 0;
  const keep = useKeptInput(isDirty, title);
  useFocus(box, form.problem);
  const end = () => {
    keep.forget();
    onClose();
  };
  const close = () => (isDirty && !form.isBusy ? setAsking(true) : end());
  const save = async (/** @type {Event} */ event) => {
    event.preventDefault();
    if (form.isBusy) return;
    if (!isNew && !isDirty) {
      toast(t("form.unchanged"));
      return end();
    }
    const done = await keep.during(() => form.run((values) => saved(form, values, onSave, reread)));
    if (!done) return;
    if (typeof done === "string") toast(done);
    else toast(done.text, "ok", done.undo);
    keep.forget();
    if (!staysOpen) onClose();
  };
  return html`<${Dialog} title=${title} onClose=${close} isWide=${isWide}>
      <form ref=${box} class="stack" novalidate onSubmit=${save} onInput=${() => setAsking(false)}>
        ${children}
        ${form.differences.length > 0 && html`<${Differences} form=${form} labelOf=${labelOf} />`}
        <${ErrorBox} problem=${form.problem} />
        ${
          isAsking
            ? html`<footer role="alert">
                <p>${t("form.discard.ask")}</p>
                <${Button} onClick=${() => setAsking(false)}>${t("form.keep_editing")}<//>
                <${Button} kind="danger" onClick=${end}>${t("form.discard")}<//>
              </footer>`
            : html`<footer>
                ${more}<${Button} onClick=${close}>${t("cancel")}<//>
                <button class="button primary" disabled=${form.isBusy}>${saveLabel ?? t("save")}</button>
              </footer>`
        }
      </form>
    <//>`;
}

/**
 * Save a form. If others have changed values of this form meanwhile, the user has to decide. Other changes do not
 * matter.
 * @template Document, Done
 * @param {import("./forms.js").Form<Document>} form
 * @param {import("./forms.js").Values} values
 * @param {(values: import("./forms.js").Values, base: Document) => Promise<Done>} onSave
 * @param {(() => Promise<Document>) | undefined} reread
 */
async function saved(form, values, onSave, reread) {
  try {
    return await onSave(values, form.base);
  } catch (error) {
    if (!(error instanceof Problem) || error.status !== 412 || !reread) throw error;
    const newest = await reread();
    return form.compare(newest).length === 0 ? await onSave(values, newest) : undefined;
  }
}

/**
 * Move the focus to the first field. After a refused save, move it to the first field with an error.
 * @param {{current: HTMLElement | null}} box
 * @param {Problem | null} problem
 */
function useFocus(box, problem) {
  useLayoutEffect(() => {
    const first = box.current?.querySelector("input:not([type=checkbox]), select, textarea");
    if (first instanceof HTMLElement) first.focus();
  }, []);
  useEffect(() => {
    const wrong = problem && box.current?.querySelector("[aria-invalid=true]");
    if (wrong instanceof HTMLElement) wrong.focus();
  }, [problem]);
}

/**
 * Warn before the page is closed with unsaved input. If the user leaves the page under the dialog, for example by the
 * Back button, the form is discarded; tell the user.
 * @param {boolean} isDirty
 * @param {string} title
 */
function useKeptInput(isDirty, title) {
  const unsaved = useRef(false);
  unsaved.current = isDirty;
  // Whether the form is being saved. If saving closes the form, its content is not reported as discarded.
  const isSaving = useRef(false);
  useLayoutEffect(
    () => () => {
      if (unsaved.current && !isSaving.current) toast(t("form.discarded", { title }), "bad");
    },
    [],
  );
  useEffect(() => {
    if (!isDirty) return undefined;
    const warn = (/** @type {Event} */ event) => event.preventDefault();
    addEventListener("beforeunload", warn);
    return () => removeEventListener("beforeunload", warn);
  }, [isDirty]);
  return {
    forget: () => void (unsaved.current = false),
    /** @template Done @param {() => Promise<Done>} save @returns {Promise<Done>} */
    during: async (save) => {
      isSaving.current = true;
      const done = await save();
      if (!done) isSaving.current = false;
      return done;
    },
  };
}

/**
 * The values that others changed meanwhile: both versions of each, and the choice between them.
 * @param {{form: Form, labelOf: (name: string) => string}} props
 */
function Differences({ form, labelOf }) {
  const id = useId();
  const cell = (
    /** @type {import("./forms.js").Difference} */ one,
    /** @type {"mine" | "theirs"} */ choice,
  ) =>
    html`<td>
        <label class="check">
          <input
            type="radio" name=${`${id}-${one.name}`} checked=${one.choice === choice}
            onChange=${() => form.choose(one.name, choice)} /> <${FormValue} value=${one[choice]} />
        </label>
      </td>`;
  return html`<section class="conflict" role="alert" aria-labelledby=${id}>
      <h3 id=${id}>${t("form.conflict")}</h3><p>${t("form.conflict.text")}</p>
      <div class="table-box">
        <table>
          <thead>
            <tr>
              <th scope="col">${t("form.field")}</th><th scope="col">${t("form.opened")}</th>
              <th scope="col">${t("form.mine")}</th><th scope="col">${t("form.theirs")}</th>
            </tr>
          </thead>
          <tbody>
            ${form.differences.map(
              (one) =>
                html`<tr key=${one.name}>
                    <th scope="row">${labelOf(one.name)}</th>
                    <td class="muted"><${FormValue} value=${one.opened} /></td>${cell(one, "mine")}
                    ${cell(one, "theirs")}
                  </tr>`,
            )}
          </tbody>
        </table>
      </div>
    </section>`;
}

/** @param {{value: string}} props */
function FormValue({ value }) {
  return value === ""
    ? html`<span class="muted">${t("none")}</span>`
    : html`<${Text} value=${value} max=${200} isBlock />`;
}
