/** Dialogs, and short messages about completed actions. */
import { Problem } from "../core/api.js";
import { number, t } from "../core/i18n.js";
import { html, useEffect, useId, useLayoutEffect, useRef, useState } from "../core/lib.js";
import { visible } from "../core/text.js";
import { Button, ErrorBox, untold } from "./controls.js";
import { Num } from "./formats.js";
import { Icon } from "./icons.js";

/** @typedef {import("../core/lib.js").FieldEvent} FieldEvent */

/** @typedef {import("../core/lib.js").Node} Node */

/**
 * A modal dialog. Escape closes it, and the focus returns to the element that had it before.
 *
 * @param {{title: string, onClose: () => void, children?: Node, isWide?: boolean}} props
 */
export function Dialog({ title, onClose, children, isWide = false }) {
  const ref = useRef(/** @type {HTMLDialogElement | null} */ (null));
  const id = useId();
  useLayoutEffect(() => {
    const opener = document.activeElement;
    ref.current?.showModal();
    return () => {
      if (opener instanceof HTMLElement && opener.isConnected) opener.focus();
    };
  }, []);
  return html`<dialog
      ref=${ref} class=${isWide ? "wide" : ""} aria-labelledby=${id} onCancel=${(/** @type {Event} */ e) => {
        e.preventDefault();
        onClose();
      }} onMouseDown=${(/** @type {MouseEvent} */ e) => {
        if (e.target === ref.current) onClose();
      }}>
      <div class="dialog">
        <header>
          <h2 id=${id}>${title}</h2>
          <button type="button" class="icon-button" aria-label=${t("close")} onClick=${onClose}>
            <${Icon} name="close" />
          </button>
        </header>
        ${children}
      </div>
    </dialog>`;
}

const TOAST_MS = 6_000;
const UNDO_MS = 15_000;
/** The number of jobs from which the user has to type the count to confirm an action. */
const TYPED_FROM = 1000;

/**
 * Ask before an action that cannot be undone, and show how many objects it concerns.
 * @param {{title: string, count: number, counted?: string, isAtLeast?: boolean, isAlways?: boolean, isReady?:
 *   boolean, verb: string, kind?: string, onConfirm: () => Promise<unknown> | unknown, onClose: () => void,
 *   children?: Node}} props
 *   `counted`: the words after the count, if the count is not of jobs. `verb`: the text of the button, such as
 *   "Delete". `isAlways`: the action is possible even if the count is 0. `isReady` false: the input is not complete.
 */
export function ConfirmCount({
  title,
  count,
  counted = t("confirm.count", { count }),
  isAtLeast = false,
  isAlways = false,
  isReady = true,
  verb,
  kind = "danger",
  onConfirm,
  onClose,
  children,
}) {
  const { problem, isBusy, confirm } = useConfirmation(onConfirm, onClose);
  const [typed, setTyped] = useState("");
  const isTyped = count <= TYPED_FROM || typed.replace(/[^0-9]/g, "") === String(count);
  const isPossible = isReady && isTyped && !isBusy && (count > 0 || isAlways);
  const isSafe = kind !== "danger";
  return html`<${Dialog} title=${title} onClose=${onClose}>
      <p class="confirm-count"><strong>${isAtLeast && "≥ "}<${Num} value=${count} /></strong> ${counted}</p>
      ${children}
      ${
        count > TYPED_FROM &&
        html`<label class="field">
            ${t("confirm.type", { count })}
            <input
              name="confirm_count" inputmode="numeric" autocomplete="off" value=${typed}
              onInput=${(/** @type {FieldEvent} */ e) => setTyped(e.target.value)} />
          </label>`
      }
      <${ErrorBox} problem=${problem} />
      <footer>
        <${Button} autofocus=${!isSafe} onClick=${onClose}>${t("confirm.back")}<//>
        <${Button} kind=${kind} disabled=${!isPossible} autofocus=${isSafe} onClick=${confirm}>
          ${count > 1 || isAtLeast ? `${verb} (${isAtLeast ? "≥ " : ""}${number(count)})` : verb}
        <//>
      </footer>
    <//>`;
}

/**
 * Confirm an action in a dialog, which closes when the action is done, and shows an error if it fails.
 * @param {() => Promise<unknown> | unknown} onConfirm
 * @param {() => void} onClose
 */
function useConfirmation(onConfirm, onClose) {
  const [problem, setProblem] = useState(/** @type {Problem | null} */ (null));
  const [isBusy, setBusy] = useState(false);
  const confirm = async () => {
    setBusy(true);
    setProblem(null);
    try {
      await onConfirm();
      onClose();
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      setProblem(error);
      setBusy(false);
    }
  };
  return { problem, isBusy, confirm };
}

/**
 * The dialog that asks before something is removed for good.
 * @param {{title: string, verb: string, onConfirm: () => Promise<void>, onClose: () => void, isReady?: boolean, children?: Node}} props
 *   `isReady` false: the input is not complete. */
export function Sure({ title, verb, onConfirm, onClose, isReady = true, children }) {
  const { problem, isBusy, confirm } = useConfirmation(onConfirm, onClose);
  return html`<${Dialog} title=${title} onClose=${onClose}>
      ${children}<${ErrorBox} problem=${problem} />
      <footer>
        <${Button} autofocus onClick=${onClose}>${t("cancel")}<//>
        <${Button} kind="danger" disabled=${isBusy || !isReady} onClick=${confirm}>${verb}<//>
      </footer>
    <//>`;
}

/** @typedef {{id: number, text: string, kind: string, undo?: (() => unknown) | undefined}} Toast */
/** @type {Set<(toast: Toast) => void>} */
const toasters = new Set();
let toastId = 0;
/**
 * Show a message for a few seconds, announced politely to screen readers.
 * @param {string} text
 * @param {"ok" | "bad"} [kind]
 * @param {() => unknown} [undo] Undoes the action that the message is about.
 */
export function toast(text, kind = "ok", undo) {
  toastId += 1;
  for (const show of toasters) show({ id: toastId, text, kind, undo });
}

export function Toasts() {
  const [all, setAll] = useState(/** @type {Toast[]} */ ([]));
  useEffect(() => {
    const show = (/** @type {Toast} */ one) => {
      setAll((old) => [...old.slice(-3), one]);
      setTimeout(
        () => setAll((old) => old.filter((other) => other.id !== one.id)),
        one.undo ? UNDO_MS : TOAST_MS,
      );
    };
    toasters.add(show);
    return () => void toasters.delete(show);
  }, []);
  return html`<div class="toasts" role="status" aria-live="polite">${all.map(
    (one) =>
      html`<p key=${one.id} class=${`toast ${one.kind}`}>${one.text}${
        one.undo &&
        html` <${Button} class="small" onClick=${() => {
          setAll((/** @type {Toast[]} */ old) => old.filter((other) => other.id !== one.id));
          void one.undo?.();
        }}>${t("undo")}<//>`
      }</p>`,
  )}</div>`;
}

/**
 * Run `act`, and show `done` or the problem. For small actions without a dialog.
 * @param {() => Promise<unknown>} act
 * @param {string} done
 * @returns {Promise<boolean>} Whether `act` succeeded.
 */
export async function attempt(act, done) {
  try {
    await act();
    if (done) toast(done);
    return true;
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    const fields = untold(error)
      .map((field) => `${field.loc.join(".")}: ${field.msg}`)
      .join("; ");
    toast(
      visible(
        [error.status ? error.title : t("error.no_answer"), error.detail, fields].filter(Boolean).join(" · "),
      ),
      "bad",
    );
    return false;
  }
}
