/** Shares of turns, reserved slots, and limits by condition, in the form of a constraint and on its page. */
import { number, t } from "../core/i18n.js";
import { html } from "../core/lib.js";
import { LIMIT_KINDS } from "./limit_kinds.js";
import { PER_VALUE, figureText, limitTexts, limitsIn } from "./limits.js";
import { conditionOf, conditionRow, ruleText, typedOf, valueOf } from "../matching/rule_builder.js";
import { parseExact, toJson } from "../core/api.js";
import { visible } from "../core/text.js";
import { Button } from "../ui/controls.js";
import { FormField } from "../ui/forms.js";

/** @typedef {import("../../answers").Schemas["ConstraintView"]} Constraint */
/** @typedef {import("../../answers").Schemas["OverrideView"]} Override */

/** @typedef {import("../core/lib.js").FieldEvent} FieldEvent */

/** @typedef {import("../ui/forms.js").FormInputs} Form */
/** @typedef {import("../ui/forms.js").Values} Values */
/** @typedef {Record<string, string>} Row The texts of the inputs of a row. `of`: a value of the key, or a matcher as JSON. */
/** @typedef {{name: string, min: number, step: string}} Column */

const VALUE_FIGURES = PER_VALUE.flatMap((kind) => kind.figures);
const OPS = ["eq", "ne", "in", "glob", "lt", "le", "gt", "ge", "exists"];
/** @type {Column[]} */
const WEIGHT = [{ name: "weight", min: 0.001, step: "any" }];
/** @type {Column[]} */
const SLOTS = [{ name: "slots", min: 1, step: "1" }];
/** @type {Column[]} */
const LIMITS = VALUE_FIGURES.map(({ name, min, unit }) => ({
  name,
  min,
  step: unit === "count" ? "1" : "any",
}));
const BLANK_RULE = toJson({ field: "argument.plan", op: "eq", value: "" });

/** @param {Constraint | null} constraint @returns The shares of turns; null: the constraint is not fair, or all shares are equal. */
const turnsOf = (constraint) => (constraint && typeof constraint.fair === "object" ? constraint.fair : null);

/** @param {Constraint | null} constraint null: a new constraint. @returns {Values} The values of this part of the form, as JSON. */
export const sharesOf = (constraint) => ({
  weights: JSON.stringify(
    (turnsOf(constraint)?.weights ?? []).map((one) => ({
      of: typedOf(one.value),
      weight: String(one.weight),
    })),
  ),
  default_weight: String(turnsOf(constraint)?.default ?? ""),
  reserve: JSON.stringify(
    (constraint?.reserve ?? []).map((one) => ({
      of: toJson(one.matcher),
      slots: String(one.concurrency),
    })),
  ),
  conditions: JSON.stringify(
    (constraint?.overrides ?? [])
      .filter((one) => one.match)
      .map((one) => ({
        of: toJson(one.match),
        paused: one.paused ? "yes" : "",
        ...Object.fromEntries(VALUE_FIGURES.map((figure) => [figure.name, figureText(figure, one)])),
      })),
  ),
});

/** @param {string | undefined} text @returns {Row[]} */
const rowsIn = (text) => JSON.parse(text || "[]");

/** @param {string | undefined} text The conditions of a form. @returns {{match: unknown}[]} The overrides for these conditions. */
export const conditionsIn = (text) =>
  rowsIn(text).map((row) => ({ match: parseExact(row["of"] ?? ""), ...limitsIn(row, PER_VALUE) }));

/**
 * Return the fields of a constraint that this part of the form edits.
 * @param {Values} given @param {Constraint | null} base null: a new constraint.
 */
export function sharesIn(given, base) {
  const weights = rowsIn(given["weights"]).map((row) => ({
    value: valueOf(row["of"] ?? ""),
    weight: Number(row["weight"]),
  }));
  const reserve = rowsIn(given["reserve"]).map((row) => ({
    matcher: parseExact(row["of"] ?? ""),
    concurrency: Number(row["slots"]),
  }));
  const isWeighted = given["fair"] && (weights.length > 0 || given["default_weight"]);
  return {
    overrides: [...(base?.overrides ?? []).filter((one) => !one.match), ...conditionsIn(given["conditions"])],
    ...(reserve.length > 0 && { reserve }),
    ...(isWeighted && { fair: { weights, default: Number(given["default_weight"] || 1) } }),
  };
}

/** @param {{form: Form}} props The shares in the form of a constraint. */
export function ShareFields({ form }) {
  const { values } = form;
  return html`${
    values["fair"] &&
    html`<${Rows} form=${form} name="weights" columns=${WEIGHT} isRule=${false} />
      <${FormField}
        form=${form} name="default_weight" path="fair.default" type="number" min="0.001" step="any"
        placeholder="1" label=${t("constraints.default_weight")} />`
  }
    ${values["concurrency"] && html`<${Rows} form=${form} name="reserve" columns=${SLOTS} isRule />`}
    ${values["key"]?.trim() && html`<${Rows} form=${form} name="conditions" columns=${LIMITS} isRule />`}`;
}

/** @param {{form: Form, name: "weights" | "reserve" | "conditions", columns: Column[], isRule: boolean}} props A table in a form. */
function Rows({ form, name, columns, isRule }) {
  const rows = rowsIn(form.values[name]);
  const put = (/** @type {Row[]} */ next) => form.set({ [name]: JSON.stringify(next) });
  const change = (/** @type {number} */ at, /** @type {Row} */ part) =>
    put(rows.map((row, place) => (place === at ? { ...row, ...part } : row)));
  const blank = {
    of: isRule ? BLANK_RULE : "",
    ...Object.fromEntries(columns.map((column) => [column.name, ""])),
  };
  return html`<fieldset class="shares plain-fields">
      <legend>${t(`constraints.form.${name}`)}</legend><p class="hint">${t(`constraints.${name}.hint`)}</p>
      ${rows.map((row, at) => {
        const n = at + 1;
        return html`<div key=${at} class="row">
            ${
              isRule
                ? html`<${Condition} text=${row["of"] ?? ""} n=${n} onText=${(/** @type {string} */ of) => change(at, { of })} />`
                : html`<input
                    aria-label=${t("rule.value", { n })} placeholder=${t("rule.value", { n })}
                    spellcheck=${false} autocomplete="off" autocapitalize="none" value=${row["of"]}
                    onInput=${(/** @type {FieldEvent} */ e) => change(at, { of: e.target.value })} />`
            }
            ${columns.map(
              (column) =>
                html`<input
                    key=${column.name} type="number" min=${column.min} step=${column.step}
                    aria-label=${`${t(`constraints.form.${/** @type {"weight"} */ (column.name)}`)} ${n}`}
                    placeholder=${t(`constraints.form.${/** @type {"weight"} */ (column.name)}`)}
                    value=${row[column.name]}
                    onInput=${(/** @type {FieldEvent} */ e) => change(at, { [column.name]: e.target.value })} />`,
            )}
            <button
              type="button" class="icon-button" aria-label=${t("rule.remove", { n })}
              onClick=${() => put(rows.filter((_, place) => place !== at))}>
              ✕
            </button>
          </div>`;
      })}
      <div>
        <${Button} class="small" onClick=${() => put([...rows, blank])}>${t("constraints.add_row")}<//>
      </div>
    </fieldset>`;
}

/** @param {{text: string, n: number, onText: (text: string) => void}} props One condition. A matcher that the inputs cannot express is only shown. */
function Condition({ text, n, onText }) {
  const row = conditionRow(text);
  if (row === null) return html`<code>${visible(text)}</code>`;
  const put = (/** @type {Partial<typeof row>} */ part) => onText(conditionOf({ ...row, ...part }));
  return html`<input
      aria-label=${t("rule.field", { n })} spellcheck=${false} autocomplete="off" autocapitalize="none"
      value=${row.field} onInput=${(/** @type {FieldEvent} */ e) => put({ field: e.target.value })} />
    <select
      aria-label=${t("rule.op", { n })} value=${row.op}
      onChange=${(/** @type {FieldEvent} */ e) => put({ op: e.target.value })}>
      ${OPS.map(
        (op) => html`<option key=${op} value=${op}>${t(`rule.op.${/** @type {"eq"} */ (op)}`)}</option>`,
      )}
    </select>
    <input
      aria-label=${t("rule.value", { n })} spellcheck=${false} autocomplete="off" autocapitalize="none"
      value=${row.value} onInput=${(/** @type {FieldEvent} */ e) => put({ value: e.target.value })} />`;
}

/** @param {{one: Constraint}} props The shares of a constraint in words. */
export function Shares({ one }) {
  const turns = turnsOf(one);
  const reserve = one.reserve ?? [];
  const conditions = one.overrides.filter((override) => override.match);
  const words = (/** @type {unknown} */ matcher) => visible(ruleText(matcher) ?? toJson(matcher));
  return html`${
    turns &&
    html`<h3>${t("constraints.form.weights")}</h3>
      <ul class="plain">
        ${turns.weights.map(
          (share, at) =>
            html`<li key=${at}>${visible(typedOf(share.value))}: <span class="num">${number(share.weight)}</span></li>`,
        )}
        <li>${t("constraints.default_weight")}: <span class="num">${number(turns.default)}</span></li>
      </ul>`
  }
    ${
      reserve.length > 0 &&
      html`<h3>${t("constraints.form.reserve")}</h3>
        <ul class="plain">
          ${reserve.map(
            (share, at) =>
              html`<li key=${at}>${words(share.matcher)}: <span class="num">${number(share.concurrency)}</span></li>`,
          )}
        </ul>`
    }
    ${
      conditions.length > 0 &&
      html`<h3>${t("constraints.form.conditions")}</h3>
        <ul class="plain">
          ${conditions.map(
            (share, at) =>
              html`<li key=${at}>
                  ${words(share.match)}: ${limitTexts({ ...NONE, ...share }, one.weight?.unit).join(" · ")}
                  ${share.paused && ` ${t("enqueue.paused")}`}
                </li>`,
          )}
        </ul>`
    }`;
}

const NONE = Object.fromEntries(LIMIT_KINDS.map(({ name }) => [name, null]));

/** @param {{counts: {jobs: number, values: number}[], text: string}} props How many waiting jobs meet each condition of a form. */
export function ConditionCounts({ counts, text }) {
  const rows = rowsIn(text);
  if (counts.length !== rows.length || rows.length === 0) return null;
  return html`<ul class="plain">
      ${rows.map((row, at) => {
        const { jobs, values } = counts[at] ?? { jobs: 0, values: 0 };
        return html`<li key=${at}>
            ${visible(ruleText(parseExact(row["of"] ?? "")) ?? row["of"] ?? "")}
            : <span class="num">
              ${t("constraints.condition_count", { jobs: number(jobs), values: number(values) })}
            </span>
          </li>`;
      })}
    </ul>`;
}
