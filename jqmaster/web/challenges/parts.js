/** Parts of challenges: their states, the answers of people, and the dialog in which somebody answers. */
import { Problem, post } from "../core/api.js";
import { number, t, tOr } from "../core/i18n.js";
import { html, useState } from "../core/lib.js";
import { visible } from "../core/text.js";
import { Button } from "../ui/controls.js";
import { FormDialog } from "../ui/form_dialog.js";
import { Badge, Text, Time } from "../ui/formats.js";
import { FormCheck, FormField, useForm } from "../ui/forms.js";

/** @typedef {import("../../answers").Schemas["ChoiceView"]} Choice */

/** @typedef {import("../ui/forms.js").Values} Values */
/** @typedef {import("../../answers").Schemas["ChallengeView"]} Challenge */
/** @typedef {Challenge & {form: NonNullable<Challenge["form"]>}} Question A challenge for people. */
/** @typedef {{type?: string, title?: string, description?: string, default?: unknown, enum?: unknown[], format?: string}} Asked The JSON Schema of a field. */

export const CHALLENGE_STATES = ["processing", "succeeded", "failed", "expired", "void"];
/** @type {Record<string, import("../ui/formats.js").Kind>} */
const KINDS = { processing: "info", succeeded: "ok", failed: "bad", expired: "bad", void: "off" };

const PHASES = /** @type {const} */ ([
  "opened_at",
  "awaiting_since",
  "remind_at",
  "due_at",
  "received_at",
  "run_at",
  "ended_at",
]);

/** @param {{state: string}} props */
export function ChallengeState({ state }) {
  return html`<${Badge} kind=${KINDS[state] ?? "off"}>${tOr(`challenges.state.${state}`, visible(state))}<//>`;
}

/** @param {Challenge} one @returns {one is Question} */
const isForPeople = (one) => Boolean(one.form);

/** @param {Challenge} one @returns {string} The question of the challenge, or its metadata, on one line. */
export const subjectOf = (one) =>
  one.form ? one.form.title : one.meta === null || one.meta === undefined ? "" : JSON.stringify(one.meta);

/** @param {Challenge} one @returns {string} */
export const audienceText = (one) => t(`challenges.audience.${one.audience ?? "system"}`);

/** @param {Choice} choice @returns {string} */
const labelOf = (choice) => choice.label || tOr(`challenges.choice.${choice.value}`, choice.value);

/** @param {Challenge} one @param {string} value @returns {string} */
function choiceText(one, value) {
  const found = one.form?.choices.find((choice) => choice.value === value);
  return found ? labelOf(found) : value;
}

/** @param {{one: Challenge}} props The answers of people: each with its text, its author, its time and the author's address. */
export function Answers({ one }) {
  const given = one.answers ?? [];
  if (given.length === 0) return null;
  return html`<ul class="plain">
      ${given.map(
        (answer, at) => html`<li key=${at}>
            <p>
              <strong><${Text} value=${choiceText(one, answer.choice)} max=${80} /></strong> <span
                class="muted">
                ${answer.by ? visible(answer.by) : t("challenges.by_link")} · ${visible(answer.address)} · <${
                  Time
                }
                  at=${answer.at} />
              </span>
            </p>
            ${answer.comment && html`<p><${Text} value=${answer.comment} max=${2000} isBlock /></p>`}
          </li>`,
      )}
    </ul>`;
}

/** @param {{one: Challenge, onDone: () => unknown}} props The button that opens the dialog. Shown only while the challenge waits. */
export function AnswerButton({ one, onDone }) {
  const [isOpen, setOpen] = useState(false);
  const isMissing = one.audience !== null && one.audience !== undefined && !one.form;
  if (one.state !== "processing" || one.received >= one.expect || isMissing) return null;
  const props = { onClose: () => setOpen(false), onDone };
  const answering = isForPeople(one)
    ? html`<${FormAnswer} one=${one} ...${props} />`
    : html`<${SystemAnswer} one=${one} ...${props} />`;
  return html`<${Button} opensDialog class="small" onClick=${() => setOpen(true)}>
      ${t("challenges.answer")}
    <//>
    ${isOpen && answering}`;
}

/** @param {Challenge} one */
const pathOf = (one) =>
  /** @type {const} */ (
    `api/jobs/${encodeURIComponent(one.job_id)}/challenges/${encodeURIComponent(one.request)}/callback`
  );

/** @param {Question} one @returns {{properties?: Record<string, Asked>, required?: string[]}} The JSON Schema of the question's fields. */
const schemaOf = (one) => one.form.fields ?? {};

/** @param {Question} one */
const fieldsOf = (one) => Object.entries(schemaOf(one).properties ?? {});

/** @param {Question} one @returns {Values} */
const emptyValues = (one) => ({
  choice: "",
  comment: "",
  ...Object.fromEntries(
    fieldsOf(one).map(([name, asked]) => [
      `values.${name}`,
      asked.type === "boolean" ? (asked.default ? "yes" : "") : String(asked.default ?? ""),
    ]),
  ),
});

/** @param {Question} one @param {Values} values */
function answerOf(one, values) {
  const chosen = one.form.choices.find((choice) => choice.value === values["choice"]);
  /** @type {Record<string, unknown>} */
  const given = {};
  for (const [name, asked] of chosen?.skips_fields ? [] : fieldsOf(one)) {
    const text = values[`values.${name}`] ?? "";
    if (asked.type === "boolean") given[name] = text === "yes";
    else if (text.trim()) {
      const isNumber = asked.type !== "string" && Number.isFinite(Number(text));
      given[name] = isNumber ? Number(text) : text;
    }
  }
  return { choice: values["choice"], comment: values["comment"], values: given };
}

/** @param {{one: Question, onClose: () => void, onDone: () => unknown}} props */
function FormAnswer({ one, onClose, onDone }) {
  const form = useForm(one, emptyValues);
  const save = async (/** @type {Values} */ values) => {
    if (!values["choice"]) {
      throw new Problem(422, { title: t("challenges.choose") });
    }
    await post(pathOf(one), answerOf(one, values));
    onDone();
    return t("challenges.answered");
  };
  const required = schemaOf(one).required ?? [];
  return html`<${FormDialog}
      title=${visible(one.form.title)} form=${form} onClose=${onClose} onSave=${save} isNew
      saveLabel=${t("challenges.answer")}>
      ${one.form.description && html`<p><${Text} value=${one.form.description} max=${4000} isBlock /></p>`}
      <${FormField} form=${form} name="choice" label=${t("challenges.choice")} as="select">
        <option value="">${t("challenges.choose_value")}</option>${one.form.choices.map(
          (choice) =>
            html`<option key=${choice.value} value=${choice.value}>${visible(labelOf(choice))}</option>`,
        )}
      <//>
      ${fieldsOf(one).map(([name, asked]) => {
        const label = visible(
          (asked.title || name) + (required.includes(name) ? "" : ` (${t("challenges.optional")})`),
        );
        const hint = asked.description ? visible(asked.description) : undefined;
        const path = `values.${name}`;
        if (asked.type === "boolean")
          return html`<${FormCheck} key=${name} form=${form} name=${path}>${visible(asked.title || name)}<//>`;
        if (asked.enum)
          return html`<${FormField}
              key=${name} form=${form} name=${path} label=${label} hint=${hint} as="select">
              <option value="">${t("challenges.choose_value")}</option>
              ${asked.enum.map(
                (value) =>
                  html`<option key=${String(value)} value=${String(value)}>${visible(String(value))}</option>`,
              )}
            <//>`;
        const type = asked.type !== "string" ? "number" : asked.format === "date" ? "date" : "text";
        return html`<${FormField}
            key=${name} form=${form} name=${path} label=${label} hint=${hint} type=${type}
            step=${asked.type === "number" ? "any" : undefined} />`;
      })}
      ${
        one.form.comment !== "none" &&
        html`<${FormField} form=${form} name="comment" label=${t("challenges.comment")} as="textarea" rows="3" maxlength="2000" />`
      }
    <//>`;
}

/**
 * The dialog that sends the callback in place of the outside system.
 * @param {{one: Challenge, onClose: () => void, onDone: () => unknown}} props
 */
function SystemAnswer({ one, onClose, onDone }) {
  const form = useForm(null, () => ({ body: "" }));
  const save = async (/** @type {Values} */ values) => {
    /** @type {unknown} */
    let body = null;
    try {
      body = values["body"]?.trim() ? JSON.parse(values["body"]) : null;
    } catch {
      throw new Problem(422, { title: t("challenges.bad_json") });
    }
    await post(pathOf(one), body);
    onDone();
    return t("challenges.answered");
  };
  return html`<${FormDialog} title=${t("challenges.answer.system")} form=${form} onClose=${onClose} onSave=${save} isNew saveLabel=${t("challenges.answer")}>
    <p>${t("challenges.answer.text")}</p>
    <${FormField} form=${form} name="body" label=${t("challenges.body")} hint=${t("challenges.body.hint")} as="textarea" rows="5" spellcheck="false" /><//>`;
}

/** @param {{one: Challenge}} props The times of each phase that was reached. */
export function Phases({ one }) {
  return html`<dl class="facts">
      ${PHASES.filter((key) => one[key]).map(
        (key) =>
          html`<dt key=${key}>${t(`challenges.${key}`)}</dt><dd key=${`${key}=`}><${Time} at=${one[key]} /></dd>`,
      )}
      <dt>${t("challenges.callbacks")}</dt>
      <dd class="num">${number(one.received)} / ${number(one.expect)}</dd>
      <dt>${t("challenges.who")}</dt><dd>${audienceText(one)}</dd>
      <dt>${t("challenges.failures")}</dt><dd class="num">${number(one.failures ?? 0)}</dd>
      ${
        one.progress &&
        html`<dt>${t("challenges.progress")}</dt>
          <dd>
            ${one.progress.fraction !== null && `${number(Math.round(one.progress.fraction * 100))} % `}
            <${Text} value=${one.progress.message ?? ""} max=${200} /> <${Time} at=${one.progress.at} />
          </dd>`
      }
    </dl>`;
}
