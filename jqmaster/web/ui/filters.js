/** Inputs that filter a list. While somebody types, the input changes the address of the page, and the address does not change the input. */
import { html, useEffect, useLayoutEffect, useRef, useState } from "../core/lib.js";
import { Field } from "./forms.js";
import { LATEST, inZone, inputOf, instantIn, useZone } from "./instants.js";

/** @typedef {import("../core/lib.js").FieldEvent} FieldEvent */

/** @typedef {import("../core/lib.js").Node} Node */

const TYPING_MS = 350;
/** Maximum time to draw the page of another address. */
const SHOWN_MS = 100;

let isPressed = false;
addEventListener("pointerdown", () => (isPressed = true), true);
for (const end of ["pointerup", "pointercancel"]) addEventListener(end, () => (isPressed = false), true);

/**
 * @param {() => void} act Runs at once, or after a click that is under way: a button must not move away while it is
 *   being pressed. If the click leads to another address, `act` waits until its page is shown. Otherwise `act` would
 *   lead back.
 */
function afterClick(act) {
  if (!isPressed) return act();
  const address = location.hash;
  const actThere = () => setTimeout(act, location.hash === address ? 0 : SHOWN_MS);
  addEventListener("pointerup", () => setTimeout(actThere), { once: true });
}

/**
 * Return the text of an input. The input reports its text a moment after the last key, at Enter, and when it loses the
 * focus. Its text follows `value` only if something else changed `value`, such as a link, the Back button or a removed
 * filter.
 * @param {string} value
 * @param {(value: string) => void} onChange
 * @param {(text: string) => string} [read] Turns the typed text into the reported one.
 */
export function useTyped(value, onChange, read = (text) => text.trim()) {
  const [text, setText] = useState(value);
  const told = useRef(value);
  const typed = useRef(value);
  const timer = useRef(/** @type {ReturnType<typeof setTimeout> | undefined} */ (undefined));
  const change = useRef(onChange);
  change.current = onChange;
  // Use a layout effect, which runs before the next keyboard event. A plain effect would run after that event, and a
  // key would be lost.
  useLayoutEffect(() => {
    if (value === told.current) return;
    clearTimeout(timer.current);
    told.current = value;
    typed.current = value;
    setText(value);
  }, [value]);
  const isGone = useRef(false);
  useEffect(
    () => () => {
      isGone.current = true;
      clearTimeout(timer.current);
    },
    [],
  );
  const tell = () => {
    clearTimeout(timer.current);
    afterClick(report);
  };
  const report = () => {
    if (isGone.current) return;
    const next = read(typed.current);
    if (next === told.current) return;
    told.current = next;
    change.current(next);
  };
  return {
    value: text,
    onInput: (/** @type {FieldEvent} */ event) => {
      typed.current = event.target.value;
      setText(typed.current);
      clearTimeout(timer.current);
      timer.current = setTimeout(tell, TYPING_MS);
    },
    onBlur: tell,
    onKeyDown: (/** @type {KeyboardEvent} */ event) => {
      if (event.key === "Enter" && !event.isComposing) tell();
    },
  };
}

/**
 * A filter that takes effect while it is typed.
 * @param {{label: string, value: string, onChange: (value: string) => void, hint?: Node} & Record<string, unknown>} props
 */
export function FilterInput({ label, value, onChange, hint, ...attributes }) {
  const typed = useTyped(value, onChange);
  return html`<${Field} label=${label} hint=${hint}>
      ${(/** @type {Record<string, unknown>} */ a) =>
        html`<input ...${a} type="search" maxlength="200" autocomplete="off" autocapitalize="none" spellcheck=${false} ...${attributes} ...${typed} />`}
    <//>`;
}

/**
 * A filter by one of several values.
 * @param {{label: string, value: string | undefined, options: string[][], onChange: (value: string) => void}} props
 *   `options`: each value with its text.
 */
export function FilterChoice({ label, value, options, onChange }) {
  return html`<${Field} label=${label}>
      ${(/** @type {Record<string, unknown>} */ a) =>
        html`<select
            ...${a} value=${value} onChange=${(/** @type {FieldEvent} */ e) => onChange(e.target.value)}>
            ${options.map(([one, text]) => html`<option key=${one} value=${one}>${text}</option>`)}
          </select>`}
    <//>`;
}

/**
 * A filter by an instant, in the time zone of all times on the page.
 * @param {{label: string, value: string, onChange: (value: string) => void}} props `value`: ISO 8601, or "".
 */
export function FilterInstant({ label, value, onChange }) {
  useZone();
  const typed = useTyped(
    inputOf(value),
    (text) => onChange(instantIn(text)),
    (text) => inputOf(instantIn(text)),
  );
  return html`<${Field} label=${inZone(label, value)}>
      ${(/** @type {Record<string, unknown>} */ a) =>
        html`<input ...${a} type="datetime-local" step="1" max=${LATEST} ...${typed} />`}
    <//>`;
}
