/** The state of forms. A form keeps its input while it is open: data that arrive meanwhile do not change the input. */
import { Problem } from "../core/api.js";
import { t } from "../core/i18n.js";
import { html, useEffect, useId, useRef, useState } from "../core/lib.js";
import { visible } from "../core/text.js";

/** @typedef {import("../core/lib.js").FieldEvent} FieldEvent */

/** @typedef {import("../core/lib.js").Node} Node */
/** @typedef {Record<string, string>} Values The values of a form as text; a checkbox has "yes" or "". */

/**
 * One part of a form that somebody else changed while it was open.
 * @typedef {{name: string, opened: string, mine: string, theirs: string, choice: "mine" | "theirs"}} Difference
 */

/**
 * @template Document
 * @typedef {object} Form
 * @property {Values} values
 * @property {string[]} changed The names of the values that differ from the values at opening.
 * @property {Document} base The document that the form was opened with, or the last document given to `compare`.
 * @property {Problem | null} problem
 * @property {(problem: Problem | null) => void} setProblem
 * @property {boolean} isBusy
 * @property {Difference[]} differences
 * @property {(changes: Values) => void} set
 * @property {(name: string) => Record<string, unknown>} input Attributes of a control that holds text.
 * @property {(name: string) => Record<string, unknown>} check Attributes of a checkbox.
 * @property {<Done>(act: (values: Values) => Promise<Done>) => Promise<Done | undefined>} run Runs `act`, never twice
 *   at a time. Returns its result, or undefined after a problem.
 * @property {(document: Document) => Difference[]} compare Takes the newest document. Returns the values that others
 *   changed in it.
 * @property {(name: string, choice: "mine" | "theirs") => void} choose
 * @property {(document: Document) => void} reopen Begins anew with `document`.
 */

/**
 * @typedef {Omit<Form<unknown>, "base" | "compare" | "reopen">} FormInputs The parts of a form that inputs need. They
 *   do not depend on the type of its document.
 */

/**
 * The state of one form. It is read from `document` once, when the form opens.
 * @template Document
 * @param {Document} document
 * @param {(document: Document) => Values} valuesOf
 * @returns {Form<Document>}
 */
export function useForm(document, valuesOf) {
  const [state, setState] = useState(() => {
    const opened = valuesOf(document);
    return { base: document, opened, values: opened, differences: /** @type {Difference[]} */ ([]) };
  });
  const [problem, setProblem] = useState(/** @type {Problem | null} */ (null));
  const [isBusy, setBusy] = useState(false);
  // The newest state. Two events of one frame must not both start from the old state.
  const newest = useRef(state);
  const put = (/** @type {Partial<typeof state>} */ part) => {
    newest.current = { ...newest.current, ...part };
    setState(newest.current);
  };
  const set = (/** @type {Values} */ changes) => put({ values: { ...newest.current.values, ...changes } });
  const names = Object.keys(state.values);
  return {
    values: state.values,
    changed: names.filter((name) => state.values[name] !== state.opened[name]),
    base: state.base,
    problem,
    setProblem,
    isBusy,
    differences: state.differences,
    set,
    ...inputsOf(state.values, set),
    run: async (act) => {
      setBusy(true);
      setProblem(null);
      try {
        return await act(newest.current.values);
      } catch (error) {
        if (!(error instanceof Problem)) throw error;
        setProblem(error);
        return undefined;
      } finally {
        setBusy(false);
      }
    },
    compare: (theirDocument) => {
      const theirs = valuesOf(theirDocument);
      const { opened, values } = newest.current;
      const differences = differencesOf(opened, values, theirs);
      const taken = differences.filter((one) => one.choice === "theirs").map((one) => [one.name, one.theirs]);
      put({
        base: theirDocument,
        opened: theirs,
        values: { ...values, ...Object.fromEntries(taken) },
        differences,
      });
      return differences;
    },
    choose: (name, choice) => {
      const differences = newest.current.differences.map((one) =>
        one.name === name ? { ...one, choice } : one,
      );
      const one = differences.find((other) => other.name === name);
      if (one) put({ differences, values: { ...newest.current.values, [name]: one[choice] } });
    },
    reopen: (next) => {
      const opened = valuesOf(next);
      put({ base: next, opened, values: opened, differences: [] });
      setProblem(null);
    },
  };
}

/**
 * @param {Values} values
 * @param {(changes: Values) => void} set
 * @returns {Pick<FormInputs, "input" | "check">}
 */
const inputsOf = (values, set) => ({
  input: (name) => ({
    name,
    value: values[name] ?? "",
    onInput: (/** @type {FieldEvent} */ event) => set({ [name]: event.target.value }),
  }),
  check: (name) => ({
    name,
    type: "checkbox",
    checked: values[name] === "yes",
    onChange: (/** @type {FieldEvent} */ event) => set({ [name]: event.target.checked ? "yes" : "" }),
  }),
});

/**
 * @param {Values} opened
 * @param {Values} values
 * @param {Values} theirs
 * @returns {Difference[]} The values that others changed since the form was opened. For a value that the user did not
 *   change, their value is chosen.
 */
const differencesOf = (opened, values, theirs) =>
  Object.keys(theirs)
    .filter((name) => theirs[name] !== opened[name] && theirs[name] !== values[name])
    .map((name) => {
      const mine = values[name] ?? "";
      const choice = mine === opened[name] ? "theirs" : "mine";
      return { name, opened: opened[name] ?? "", mine, theirs: theirs[name] ?? "", choice };
    });

/**
 * A labelled control with its hint and the problem of its field.
 * @param {{label: string, hint?: Node, problem?: Problem | null, path?: string, children: (attributes: Record<string, unknown>) => Node}} props
 *   `path`: the path of the field in the problem's errors, joined by dots. A leading `body.` does not matter.
 */
export function Field({ label, hint, problem, path, children }) {
  const id = useId();
  const errors = path ? fieldErrors(problem, path) : [];
  const described = [hint && `${id}-hint`, errors.length > 0 && `${id}-error`].filter(Boolean).join(" ");
  return html`<div class=${`field ${errors.length ? "invalid" : ""}`}><label for=${id}>${label}</label>
    ${children({ id, "aria-describedby": described || undefined, "aria-invalid": errors.length > 0 ? "true" : undefined })}
    ${hint && html`<p class="hint" id=${`${id}-hint`}>${hint}</p>`}
    ${errors.length > 0 && html`<p class="field-error" id=${`${id}-error`}>${visible(errors.join("; "))}</p>`}</div>`;
}

/**
 * @param {Problem | null | undefined} problem
 * @param {string} path
 * @returns {string[]}
 */
export function fieldErrors(problem, path) {
  return (problem?.errors ?? [])
    .filter((error) => {
      const loc = error.loc.join(".").replace(/^(body|query)\./, "");
      return loc === path || loc.startsWith(path + ".");
    })
    .map((error) => error.msg);
}

/**
 * Fields that are seldom used. They are folded until somebody opens them, or until one of them has a value or a
 * problem.
 * @param {{form: FormInputs, names: string[], problem: Problem | null, label: string, children: Node}} props
 */
export function FormMore({ form, names, problem, label, children }) {
  const hasValue = names.some((name) => form.values[name]);
  const hasProblem = names.some((name) => fieldErrors(problem, name).length > 0);
  const [isOpen, setOpen] = useState(hasValue);
  // Open the fields when a problem or a value appears, even if the user has folded them.
  useEffect(() => {
    if (hasValue || hasProblem) setOpen(true);
  }, [hasValue, hasProblem]);
  return html`<details
      class="more" open=${isOpen}
      onToggle=${(/** @type {Event & {currentTarget: HTMLDetailsElement}} */ event) =>
        setOpen(event.currentTarget.open)}>
      <summary>${label}</summary><div class="stack">${children}</div>
    </details>`;
}

/**
 * A field of a form that holds text, a number or an instant.
 * @param {{form: FormInputs, name: string, label: string, hint?: Node, path?: string, problem?: Problem | null,
 *   children?: Node} & Record<string, unknown>} props
 *   `path`: the path of the field in problems; by default the name. `as`: "textarea" or "select"; the children are the
 *   options of a select.
 */
export function FormField({
  form,
  name,
  label,
  hint,
  path,
  problem,
  as: tag = "input",
  children,
  ...attributes
}) {
  return html`<${Field} label=${label} hint=${hint} problem=${problem ?? form.problem} path=${path ?? name}>${(
    /** @type {Record<string, unknown>} */ a,
  ) => html`<${tag} autocomplete="off" ...${a} ...${attributes} ...${form.input(name)}>${children}<//>`}<//>`;
}

/** Explains how to write a value as JSON, including values that JSON does not have. */
export const JsonHint = () =>
  html`${t("enqueue.argument.hint")} <code>${'{"$bin": "…"}'}</code> <code>${'{"$ext": [1, "…"]}'}</code>`;

/** @param {{form: FormInputs, name: string, children?: Node} & Record<string, unknown>} props A checkbox with its label. */
export function FormCheck({ form, name, children, ...attributes }) {
  return html`<label class="check"><input ...${attributes} ...${form.check(name)} /> ${children}</label>`;
}
