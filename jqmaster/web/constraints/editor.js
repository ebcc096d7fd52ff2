/** The dialogs that create and change constraints, with a preview of the jobs that a matcher selects. */
import { Problem, call, get, parseExact, post, toJson } from "../core/api.js";
import { LastHour } from "./replay.js";
import { ConditionCounts, ShareFields, conditionsIn, sharesIn, sharesOf } from "./shares.js";
import { number, t } from "../core/i18n.js";
import { html, useEffect, useState } from "../core/lib.js";
import { LIMIT_KINDS } from "./limit_kinds.js";
import { PER_VALUE, SWITCHES, figureText, formOf, inputFor, limitsIn } from "./limits.js";
import { MatcherField, useJobSuggestions } from "../matching/rule_builder.js";
import { href } from "../core/router.js";
import { visible } from "../core/text.js";
import { ErrorBox } from "../ui/controls.js";
import { FormDialog } from "../ui/form_dialog.js";
import { Id, State, Text, Time } from "../ui/formats.js";
import { FormCheck, FormField, useForm } from "../ui/forms.js";
import { editedInstant, inZone, useZone } from "../ui/instants.js";

/** @typedef {import("../../answers").Schemas["ConstraintView"]} Constraint */
/** @typedef {import("../../answers").Schemas["KeyUsageView"]} KeyUsage */
/** @typedef {import("../../answers").Schemas["PreviewAnswer"]} PreviewAnswer */

/** @typedef {import("../ui/forms.js").Values} Values */
/** @typedef {import("./limit_kinds.js").Figure} Figure */

const PREVIEW_MS = 500;
// The API's rule for names, which are part of addresses.
const NAME = /^[A-Za-z0-9_.:-]{1,100}$/;
const VALUE_FIGURES = PER_VALUE.flatMap((kind) => kind.figures);
/** @type {Figure} */
const EXPIRES_AT = { name: "expires_at", path: ["expires_at"], min: 0, unit: "instant" };
const FIGURES = [...LIMIT_KINDS.flatMap((kind) => kind.figures), EXPIRES_AT];
const BLANK = {
  name: "",
  matcher: '{"field": "name", "op": "eq", "value": "mail.send"}',
  key: "",
  ...formOf(null),
  ...sharesOf(null),
  mode: "enforce",
  enabled: "yes",
  reason: "",
  expires_at: "",
};

/** @param {Constraint | null} constraint null: a new constraint. @returns {Values} */
const valuesOf = (constraint) =>
  constraint
    ? {
        name: constraint.name,
        matcher: toJson(constraint.matcher, 2),
        key: constraint.key ?? "",
        ...formOf(constraint),
        ...sharesOf(constraint),
        mode: constraint.mode,
        enabled: constraint.enabled ? "yes" : "",
        reason: constraint.reason,
        expires_at: figureText(EXPIRES_AT, constraint),
      }
    : BLANK;

const LABELS = /** @type {Record<string, string>} */ ({
  reason: "pause.reason",
  expires_at: "pause.until",
  default_weight: "constraints.default_weight",
  matcher: "constraints.matcher",
  key: "constraints.key",
});

/** @param {string} name The name of a part of the form. */
const labelOf = (name) => {
  const label = t(LABELS[name] ?? `constraints.form.${name}`);
  return FIGURES.some((figure) => figure.name === name && figure.unit === "instant") ? inZone(label) : label;
};

/** @param {{form: import("../ui/forms.js").FormInputs, figure: Figure}} props */
const FigureField = ({ form, figure }) =>
  html`<${FormField} form=${form} name=${figure.name} path=${figure.path.join(".")} label=${labelOf(figure.name)} ...${inputFor(figure)} />`;

/** @param {{constraint: Constraint | null, onClose: () => void, onDone: (name: string) => unknown}} props `constraint` null: a new constraint. */
export function ConstraintEditor({ constraint, onClose, onDone }) {
  useZone();
  const form = useForm(constraint, valuesOf);
  const { values } = form;
  const suggestions = useJobSuggestions();
  const matcher = parsed(values["matcher"] ?? "");
  const save = async (/** @type {Values} */ given, /** @type {Constraint | null} */ base) => {
    const { name, body } = requestOf(given, base);
    await call("PUT", `api/constraints/${encodeURIComponent(name)}`, {
      body,
      headers: base ? { "If-Match": `"${base.etag}"` } : { "If-None-Match": "*" },
    });
    await onDone(name);
    return t(base ? "constraints.done.changed" : "constraints.done.created", { name: visible(name) });
  };
  const reread = () => get(`api/constraints/${encodeURIComponent(constraint?.name ?? "")}`);
  return html`<${FormDialog}
      title=${constraint ? `${t("constraints.edit")} · ${visible(constraint.name)}` : t("constraints.make")}
      form=${form} onClose=${onClose} onSave=${save} labelOf=${labelOf}
      reread=${constraint ? reread : undefined} isNew=${constraint === null}
      saveLabel=${constraint ? t("save") : t("constraints.create")} isWide>
      ${
        !constraint &&
        html`<${FormField} form=${form} name="name" label=${t("job.name")} hint=${t("constraints.name.rule")} maxlength="100" spellcheck=${false} />`
      }
      <div class="form-grid">
        <${MatcherField}
          form=${form} rows="6" suggestions=${suggestions} label=${t("constraints.matcher")}
          hint=${t("rule.hint")} jsonHint=${t("constraints.matcher.hint")}
          problem=${form.problem ?? matcher.problem} />
        <${Preview}
          text=${matcher.problem ? "" : (values["matcher"] ?? "")} matchKey=${values["key"]?.trim() ?? ""}
          conditions=${values["conditions"] ?? ""} limits=${limitsIn(values, LIMIT_KINDS)} />
      </div>
      <div class="form-grid">
        <${FormField}
          form=${form} name="key" label=${t("constraints.key")} hint=${t("constraints.key.hint")}
          placeholder="argument.host" spellcheck=${false} />
        ${LIMIT_KINDS.filter((kind) => kind.figures.length > 0).map(
          ({ name, figures }) =>
            html`<div key=${name} class=${figures.length === 2 ? "pair" : "apart"}>
                ${figures.map((figure) => html`<${FigureField} key=${figure.name} form=${form} figure=${figure} />`)}
              </div>`,
        )}
        <${FigureField} form=${form} figure=${EXPIRES_AT} />
        <${FormField} form=${form} name="mode" as="select" label=${labelOf("mode")}>
          <option value="enforce">${t("constraints.enforce")}</option>
          <option value="shadow">${t("constraints.shadow")}</option>
        <//>
      </div>
      <${FormField}
        form=${form} name="reason" label=${t("pause.reason")} hint=${t("constraints.reason.hint")}
        maxlength="500" />
      <div class="row">
        <${FormCheck} form=${form} name="enabled">${labelOf("enabled")}<//>
        ${SWITCHES.map(
          (kind) =>
            html` <${FormCheck} key=${kind.name} form=${form} name=${kind.name}>${labelOf(kind.name)}<//>`,
        )}
      </div>
      <${ShareFields} form=${form} />
      <${LastHour} document=${matcher.problem ? null : limiting(values, matcher.value, constraint)} />
    <//>`;
}

/**
 * Return the name and the document that a form describes.
 * @param {Values} given @param {Constraint | null} base null: a new constraint.
 */
function requestOf(given, base) {
  const name = given["name"]?.trim() ?? "";
  const read = parsed(given["matcher"] ?? "");
  if (!NAME.test(name)) throw refusal("name", t(name ? "constraints.name.rule" : "constraints.name.none"));
  if (read.problem) throw read.problem;
  const body = {
    ...limiting(given, read.value, base),
    mode: given["mode"],
    enabled: given["enabled"] === "yes",
    reason: given["reason"] ?? "",
    expires_at: editedInstant(given["expires_at"] ?? "", base?.expires_at) || null,
  };
  return { name, body };
}

/**
 * Return the part of a form that says which jobs are limited, and how.
 * @param {Values} given @param {unknown} matcher @param {Constraint | null} base null: a new constraint.
 */
const limiting = (given, matcher, base) => ({
  matcher,
  ...(given["key"]?.trim() && { key: given["key"].trim() }),
  ...limitsIn(given, LIMIT_KINDS),
  ...sharesIn(given, base),
});

/** @param {KeyUsage} key A value of the key. @returns {Values} */
const ownLimits = (key) => {
  const figures = formOf(key.own_limits);
  return Object.fromEntries(VALUE_FIGURES.map(({ name }) => [name, figures[name] ?? ""]));
};

/**
 * The dialog for the limits of one value of the key.
 * @param {{shown: KeyUsage, path: `api/constraints/${string}`, onClose: () => void, onDone: () => unknown}} props
 */
export function ValueLimits({ shown, path, onClose, onDone }) {
  useZone();
  const form = useForm(shown, ownLimits);
  const reread = async () => {
    const { top_keys: keys } = await get(path);
    return keys.find((key) => key.id === shown.id) ?? { ...shown, own_limits: null };
  };
  const save = async (/** @type {Values} */ values, /** @type {KeyUsage} */ base) => {
    const present = await reread();
    if (toJson(present.own_limits) !== toJson(base.own_limits) && form.differences.length === 0)
      throw new Problem(412, { title: t("form.conflict") });
    const limits = limitsIn({ ...values, paused: present.own_limits?.paused ? "yes" : "" }, PER_VALUE);
    await post(`${path}/values`, { value_id: shown.id, ...limits });
    await onDone();
    return t("constraints.done.value", { value: visible(shown.value) });
  };
  return html`<${FormDialog} title=${t("constraints.limit_value.title")} form=${form} onClose=${onClose} onSave=${save} reread=${reread} labelOf=${labelOf}>
    <p><strong><${Text} value=${shown.value} max=${200} /></strong></p><p class="muted">${t("constraints.limit_value.text")}</p>
    <div class="form-grid">${VALUE_FIGURES.map((figure) => html`<${FigureField} key=${figure.name} form=${form} figure=${figure} />`)}</div><//>`;
}

const MAX_HEAVY = 5;

/**
 * The weight of the waiting jobs.
 * @param {{units: {unit: string, total: number, heaviest: number, by_default: number, too_heavy: number,
 *   too_heavy_jobs: string[]}, weight: {from?: string, default?: number} | null | undefined}} props
 *   `weight`: the weight in the form.
 */
function Weights({ units, weight }) {
  const { unit, total, heaviest, by_default: byDefault, too_heavy: tooHeavy } = units;
  const jobs = units.too_heavy_jobs.slice(0, MAX_HEAVY);
  return html`<p>
      ${t("constraints.preview.units", {
        total: number(total),
        unit: visible(unit),
        heaviest: number(heaviest),
      })}
    </p>
    ${
      byDefault > 0 &&
      weight?.from &&
      html`<p class="muted">${t("constraints.preview.by_default", { count: byDefault, path: visible(weight.from), default: number(weight.default ?? 1) })}</p>`
    }
    ${
      tooHeavy > 0 &&
      html`<p class="field-error">
          ${t("constraints.preview.too_heavy", { count: tooHeavy })} ${jobs.map(
            (/** @type {string} */ id) => html`<${Id} key=${id} id=${id} href=${href("job", { id })} /> `,
          )}
        </p>`
    }`;
}

/** @param {string} field @param {string} msg */
const refusal = (field, msg) => new Problem(422, { title: msg, errors: [{ loc: [field], msg }] });

/**
 * @param {string} text
 * @returns {{value?: unknown, problem: Problem | null}}
 */
function parsed(text) {
  try {
    return { value: parseExact(text), problem: null };
  } catch (error) {
    const reason = error instanceof Error ? error.message : "";
    return { problem: refusal("matcher", `${t("constraints.not_json")}: ${reason}`) };
  }
}

/**
 * @typedef {{text: string, matchKey: string, conditions: string, limits: {weight?: {from?: string, default?: number} |
 *   null, concurrency?: number, rate?: {limit?: number, period_s?: number}}}} Previewed
 *   `text`: the matcher as JSON; "" if there is no matcher to preview.
 */

/**
 * Preview which waiting jobs the constraint would apply to, a moment after the last key.
 * @param {Previewed} previewed
 * @returns {{answer: PreviewAnswer | null, problem: Problem | null}}
 */
function usePreview({ text, matchKey, conditions, limits: { weight, concurrency, rate } }) {
  const [state, setState] = useState(
    /** @type {{of: string, answer: PreviewAnswer | null, problem: Problem | null}} */ ({
      of: "",
      answer: null,
      problem: null,
    }),
  );
  // The preview compares limits only with weighted jobs, so send the limits only with a weight. Leave out a rate that
  // is not complete yet.
  const isRate = (rate?.limit ?? 0) > 0 && (rate?.period_s ?? 0) > 0;
  const weighed = weight ? { weight, ...(concurrency && { concurrency }), ...(isRate && { rate }) } : {};
  const asked = JSON.stringify([text, matchKey, conditions, weighed]);
  useEffect(() => {
    if (!text) return undefined;
    const parts = Object.entries(weighed).map(([name, value]) => `,"${name}":${toJson(value)}`);
    if (matchKey)
      parts.push(`,"key":${JSON.stringify(matchKey)},"overrides":${toJson(conditionsIn(conditions))}`);
    const aborter = new AbortController();
    const timer = setTimeout(() => {
      call("POST", "api/constraints/preview", {
        text: `{"matcher":${text},"limit":5${parts.join("")}}`,
        signal: aborter.signal,
      }).then(
        (answer) => setState({ of: asked, answer, problem: null }),
        (error) => {
          if (error instanceof Problem) setState({ of: asked, answer: null, problem: error });
        },
      );
    }, PREVIEW_MS);
    return () => {
      clearTimeout(timer);
      aborter.abort();
    };
  }, [asked]);
  // Ignore an answer to an earlier text.
  return state.of === asked ? state : { answer: null, problem: null };
}

/** @param {Previewed} props Shows which waiting jobs the constraint would apply to, and how much they weigh. */
function Preview(props) {
  const { text, matchKey, conditions, limits } = props;
  const { answer, problem } = usePreview(props);
  return html`<div class="preview" aria-live="polite">
      <h3>${t("constraints.preview")}</h3><${ErrorBox} problem=${problem} />
      ${
        !answer &&
        !problem &&
        html`<p class="muted">${t(text ? "action.counting" : "constraints.preview.invalid")}</p>`
      }
      ${
        answer &&
        html`<p>
            <strong class="num">${answer.is_exact ? "" : "≥ "}${number(answer.count)}</strong> ${t(
              "constraints.preview.count",
              { count: answer.count },
            )}
            ${
              answer.without_key > 0 &&
              html` <span class="muted">${t("constraints.preview.without", { count: answer.without_key })}</span>`
            }
          </p>
          <ul class="plain">
            ${answer.examples.map(
              (job) =>
                html`<li key=${job.id}>
                    <${State} state=${job.state} /> <${Text} value=${job.name} max=${60} /> <span
                      class="muted">
                      <${Time} at=${job.created_at} />
                    </span>
                  </li>`,
            )}
          </ul>
          ${answer.units && html`<${Weights} units=${answer.units} weight=${limits.weight} />`}
          ${matchKey && html`<${ConditionCounts} counts=${answer.overrides ?? []} text=${conditions} />`}
          ${
            answer.keys &&
            answer.keys.length > 0 &&
            html`<p class="muted">
                ${answer.keys
                  .slice(0, 8)
                  .map(
                    (key) =>
                      html`<span class="chip"><${Text} value=${key.value} max=${40} /> ${number(key.count)}</span> `,
                  )}
              </p>`
          }`
      }
    </div>`;
}
