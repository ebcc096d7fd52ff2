/** Fields of a form, with what the master says about each. */
import { Problem } from "../api.js";
import { html, useId } from "../lib.js";
import { visible } from "../text.js";

/** @typedef {any} Node */

/**
 * A labelled control with its hint and the problem of its field.
 * @param {{label: string, hint?: Node, problem?: Problem | null, path?: string, children: (attributes: Record<string, any>) => Node}} props
 *   `path`: of the field in the problem's errors, joined by dots; a `body.` before it does not matter.
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
