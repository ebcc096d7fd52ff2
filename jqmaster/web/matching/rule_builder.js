/** A matcher as rows of field, operator and value, with suggestions from jobs. It can also be typed as JSON. */
import { get, parseExact, toJson } from "../core/api.js";
import { t, tOr } from "../core/i18n.js";
import { html, useEffect, useId, useLayoutEffect, useRef, useState } from "../core/lib.js";
import { visible } from "../core/text.js";
import { Button } from "../ui/controls.js";
import { Text } from "../ui/formats.js";
import { FormField, fieldErrors } from "../ui/forms.js";

/** @typedef {import("../core/lib.js").FieldEvent} FieldEvent */

/** @typedef {{field: string, op: string, value: string, isNot: boolean}} Row `value` as it is typed. */
/** @typedef {{kind: "all" | "any", rows: Row[]}} Rule */
/** @typedef {(field: string, value: unknown) => void} Add */

const OPS = ["eq", "ne", "in", "glob", "lt", "le", "gt", "ge", "exists"];
const FIELDS = ["name", "tags", "priority"];
const JOBS_READ = 5;
const MAX_DEEP = 4;
const MAX_VALUES = 20;
/** @typedef {{fields: string[], values: Map<string, string[]>}} Suggestions Paths, the most frequent first, and the values at each path. */

/**
 * Return the rows of a matcher, or null if it is nested deeper than rows can show.
 * @param {string} text JSON.
 * @returns {Rule | null}
 */
export function ruleOf(text) {
  /** @type {Partial<Record<Rule["kind"], unknown>> | null} */
  let matcher;
  try {
    matcher = /** @type {typeof matcher} */ (parseExact(text));
  } catch {
    return null;
  }
  const kind = Array.isArray(matcher?.any) ? "any" : "all";
  const members = matcher?.[kind];
  const rows = (Array.isArray(members) ? members : [matcher]).map(rowOf);
  return rows.every((row) => row !== null) ? { kind, rows } : null;
}

/** @param {{not?: unknown} | null} condition @returns {Row | null} */
function rowOf(condition) {
  const isNot = Boolean(condition?.not);
  const leaf = /** @type {{field?: unknown, op?: unknown, value?: unknown} | null} */ (
    isNot ? condition?.not : condition
  );
  if (typeof leaf?.field !== "string" || typeof leaf.op !== "string" || !OPS.includes(leaf.op)) return null;
  return { field: leaf.field, op: leaf.op, value: typedOf(leaf.value ?? true), isNot };
}

/** @param {unknown} value @returns {string} The value as plain text. If this text could be read as JSON, the value as JSON. */
export const typedOf = (value) =>
  typeof value === "string" && valueOf(value) === value ? value : toJson(value);

/** @param {string} typed @returns {unknown} The value of the JSON. If the text is not JSON, the text. */
export function valueOf(typed) {
  try {
    return parseExact(typed);
  } catch {
    return typed;
  }
}

/** @param {Row} row @returns {string} The condition of the row in words. */
function conditionText({ field, op, value, isNot }) {
  const isAbsent = op === "exists" && value === "false";
  return [
    field,
    isNot !== isAbsent && t("rule.not"),
    tOr(`rule.op.${op}`, op),
    op !== "exists" && (value || '""'),
  ]
    .filter(Boolean)
    .join(" ");
}

/**
 * @param {unknown} matcher
 * @returns {string | null} The matcher in words, on one line; null if the words would be hard to read.
 */
export function ruleText(matcher) {
  const rule = ruleOf(toJson(matcher));
  if (rule === null) return null;
  const text = rule.rows.map(conditionText).join("; ");
  return rule.rows.length > 1 ? `${t(`rule.${rule.kind}`)}: ${text}` : text;
}

/** @param {{matcher: unknown}} props A matcher in words, with a button that shows its JSON. */
export function RuleText({ matcher }) {
  const rule = ruleOf(toJson(matcher));
  const json = html`<pre class="message"><${Text} value=${toJson(matcher, 2)} max=${4000} isBlock /></pre>`;
  if (rule === null) return json;
  return html`${rule.rows.length > 1 && html`<p>${t(`rule.${rule.kind}`)}:</p>`}
    <ul class="plain rule-text">
      ${rule.rows.map(
        (row, at) => html`<li key=${at}><${Text} value=${conditionText(row)} max=${400} /></li>`,
      )}
    </ul>
    <details><summary>JSON</summary>${json}</details>`;
}

/**
 * @param {string} text A matcher as JSON.
 * @returns {Row | null} The only condition of the matcher. Null: it has several conditions, or one that rows cannot
 *   show.
 */
export function conditionRow(text) {
  const rows = ruleOf(text)?.rows ?? [];
  return rows.length === 1 && rows[0] && !rows[0].isNot ? rows[0] : null;
}

/** @param {Row} row @returns {string} The matcher with this condition alone, as JSON. */
export const conditionOf = (row) => textOf({ kind: "all", rows: [row] });

/** @param {Rule} rule @returns {string} */
function textOf({ kind, rows }) {
  const members = rows.map(({ field, op, value, isNot }) => {
    const typed =
      op === "in" && !value.trim().startsWith("[")
        ? value.split(",").map((one) => valueOf(one.trim()))
        : valueOf(value);
    const leaf = { field, op, value: op === "exists" ? value !== "false" : typed };
    return isNot ? { not: leaf } : leaf;
  });
  return toJson(members.length === 1 && kind === "all" ? members[0] : { [kind]: members }, 2);
}

/**
 * @param {{text: string, onText: (text: string) => void, suggestions: Suggestions, hint: string}} props `text`: the matcher as JSON.
 */
export function RuleBuilder({ text, onText, suggestions, hint }) {
  const id = useId();
  const [rule, setRule] = useState(() => ruleOf(text));
  const told = useRef(text);
  useLayoutEffect(() => {
    // Take over only changes that were made elsewhere, so that the text is not reformatted while somebody types.
    if (text === told.current) return;
    told.current = text;
    setRule(ruleOf(text));
  }, [text]);
  if (rule === null) return html`<p class="muted">${t("rule.nested")}</p>`;
  const change = (/** @type {Rule} */ next) => {
    setRule(next);
    told.current = textOf(next);
    onText(told.current);
  };
  const put = (/** @type {number} */ at, /** @type {Partial<Row>} */ part) =>
    change({ ...rule, rows: rule.rows.map((row, place) => (place === at ? { ...row, ...part } : row)) });
  const remove = (/** @type {number} */ at) =>
    change({ ...rule, rows: rule.rows.filter((_, place) => place !== at) });
  return html`<div class="rule" role="group" aria-label=${t("constraints.matcher")}>
      <datalist id=${`${id}-fields`}>
        ${suggestions.fields.map((field) => html`<option key=${field} value=${field} />`)}
      </datalist>
      ${
        rule.rows.length > 1 &&
        html`<select
            aria-label=${t("rule.kind")} value=${rule.kind}
            onChange=${(/** @type {FieldEvent} */ e) =>
              change({ ...rule, kind: e.target.value === "any" ? "any" : "all" })}>
            <option value="all">${t("rule.all")}</option><option value="any">${t("rule.any")}</option>
          </select>`
      }
      ${rule.rows.map(
        (row, at) =>
          html`<${RuleRow}
              key=${at} row=${row} at=${at} id=${id} suggestions=${suggestions}
              put=${(/** @type {Partial<Row>} */ part) => put(at, part)} onRemove=${rule.rows.length > 1 ? () => remove(at) : null} />`,
      )}
      <div>
        <${Button}
          class="small" onClick=${() =>
            change({
              ...rule,
              rows: [...rule.rows, { field: suggestions.fields[0] ?? "", op: "eq", value: "", isNot: false }],
            })}>
          ${t("rule.add")}
        <//>
      </div>
      <p class="muted small">${hint}</p>
    </div>`;
}

/**
 * @param {{row: Row, at: number, id: string, suggestions: Suggestions, put: (part: Partial<Row>) => void, onRemove: (() => void) | null}} props
 *   `id`: the ID of the whole matcher on the page.
 */
function RuleRow({ row, at, id, suggestions, put, onRemove }) {
  const n = at + 1;
  return html`<div class="rule-row">
            <input
              aria-label=${t("rule.field", { n })} list=${`${id}-fields`} spellcheck=${false}
              autocomplete="off" autocapitalize="none" value=${row.field}
              onInput=${(/** @type {FieldEvent} */ e) => put({ field: e.target.value })} />
            <select
              aria-label=${t("rule.op", { n })} value=${`${row.isNot ? "not " : ""}${row.op}`}
              onChange=${(/** @type {FieldEvent} */ e) =>
                put({
                  op: e.target.value.replace("not ", ""),
                  isNot: e.target.value.startsWith("not "),
                })}>
              ${["", "not "].flatMap((not) =>
                OPS.map(
                  (op) =>
                    html`<option key=${not + op} value=${not + op}>${not && `${t("rule.not")} `}${tOr(`rule.op.${op}`, op)}</option>`,
                ),
              )}
            </select>
            <input
              aria-label=${t("rule.value", { n })} list=${`${id}-values-${at}`} spellcheck=${false}
              autocomplete="off" autocapitalize="none" value=${row.value}
              onInput=${(/** @type {FieldEvent} */ e) => put({ value: e.target.value })} />
            <datalist id=${`${id}-values-${at}`}>
              ${(suggestions.values.get(row.field) ?? []).map(
                (value) => html`<option key=${value} value=${value} />`,
              )}
            </datalist>
            ${
              onRemove &&
              html`<button
                  type="button" class="icon-button" aria-label=${t("rule.remove", { n })}
                  onClick=${onRemove}>
                  ✕
                </button>`
            }
          </div>`;
}

/**
 * A matcher in a form: as rows or as JSON.
 * @param {{form: import("../ui/forms.js").FormInputs, label: string, suggestions: Suggestions, hint: string, jsonHint?:
 *   string, rows?: string, problem?: import("../core/api.js").Problem | null}} props
 *   `problem`: shown in place of the problem of the form.
 */
export function MatcherField({ form, label, suggestions, hint, jsonHint, rows = "5", problem }) {
  const text = form.values["matcher"] ?? "";
  const [isJson, setJson] = useState(() => ruleOf(text) === null);
  const shown = problem ?? form.problem;
  const errors = fieldErrors(shown, "matcher");
  return html`<div class="stack">
      <div class="row" role="group" aria-label=${t("rule.mode")}>
        <${Button} class="small" aria-pressed=${String(!isJson)} onClick=${() => setJson(false)}>
          ${t("rule.builder")}
        <//> <${Button} class="small" aria-pressed=${String(isJson)} onClick=${() => setJson(true)}>JSON<//>
      </div>
      ${
        isJson
          ? html`<${FormField} form=${form} name="matcher" as="textarea" rows=${rows} spellcheck=${false} label=${label} hint=${jsonHint} problem=${shown} />`
          : html`<${RuleBuilder}
              suggestions=${suggestions} hint=${hint} text=${text}
              onText=${(/** @type {string} */ next) => form.set({ matcher: next })} />
            ${errors.length > 0 && html`<p class="field-error">${visible(errors.join("; "))}</p>`}`
      }
    </div>`;
}

/**
 * @param {string[]} fields The fields that are always suggested.
 * @param {(add: Add, signal: AbortSignal) => Promise<unknown>} read Adds the found fields and values.
 * @param {unknown[]} deps
 * @returns {Suggestions}
 */
export function useSuggestions(fields, read, deps) {
  const [found, setFound] = useState(() => ({ fields, values: new Map() }));
  useEffect(() => {
    const aborter = new AbortController();
    /** @type {Map<string, Set<string>>} */
    const values = new Map();
    /** @type {Add} */
    const add = (field, value) =>
      eachPart(field, value, (path, part) =>
        values.set(path, (values.get(path) ?? new Set()).add(typedOf(part))),
      );
    read(add, aborter.signal).then(
      () =>
        setFound({
          fields: [...new Set([...fields, ...values.keys()])],
          values: new Map([...values].map(([field, all]) => [field, [...all].slice(0, MAX_VALUES)])),
        }),
      () => {},
    );
    return () => aborter.abort();
  }, deps);
  return found;
}

/**
 * @param {string} path
 * @param {unknown} value
 * @param {Add} take Called with each part that a condition can compare.
 */
function eachPart(path, value, take) {
  if (value !== null && typeof value === "object" && !Array.isArray(value)) {
    if (path.split(".").length > MAX_DEEP) return;
    for (const [key, member] of Object.entries(value))
      eachPart(/^\w+$/.test(key) ? `${path}.${key}` : `${path}[${JSON.stringify(key)}]`, member, take);
  } else if (!Array.isArray(value)) take(path, value);
}

/** @returns {Suggestions} Paths and values of jobs in the queue. */
export const useJobSuggestions = () => useSuggestions(FIELDS, readJobs, []);

/** @param {Add} add @param {AbortSignal} signal */
async function readJobs(add, signal) {
  const [names, jobs] = await Promise.all([
    get("api/names", { limit: 50 }, signal),
    get("api/jobs", { limit: 50 }, signal),
  ]);
  for (const { name } of names.names) add("name", name);
  const different = [...new Map(jobs.jobs.map((job) => [job.name, job])).values()].slice(0, JOBS_READ);
  for (const job of jobs.jobs) for (const tag of job.tags) add("tags", tag);
  const whole = await Promise.all(
    different.map((job) => get(`api/jobs/${encodeURIComponent(job.id)}`, {}, signal)),
  );
  for (const job of whole) {
    if (!job.argument_hidden) add("argument", job.argument);
    for (const [key, value] of Object.entries(job.headers)) add(`headers.${visible(key)}`, value);
  }
}
