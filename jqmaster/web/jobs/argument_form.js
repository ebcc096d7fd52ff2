/**
 * The argument of a new job: fields from the schema of the job's name, or raw JSON. Both always show the same value.
 */
import { argumentOf, fieldsOf, hasFields, keyOf, valuesOf } from "./argument_fields.js";
import { Problem, get, parseExact, toJson } from "../core/api.js";
import { t } from "../core/i18n.js";
import { html, useEffect, useMemo, useRef, useState } from "../core/lib.js";
import { visible } from "../core/text.js";
import { Button } from "../ui/controls.js";
import { FormField, JsonHint } from "../ui/forms.js";
import { LATEST, inZone, inputOf, instantIn, useZone } from "../ui/instants.js";

/** @typedef {import("../../answers").Schemas["NameContract"]} Contract */

/** @typedef {import("../core/lib.js").FieldEvent} FieldEvent */

const CONTRACT_MS = 300;

/** @typedef {import("./argument_fields.js").ArgumentField} ArgumentField */
/** @typedef {import("../core/api.js").FieldProblem} FieldProblem */

/**
 * Return the contract that live workers report for a name. Without live workers, return the last reported contract.
 * @param {string} name
 * @returns {Contract | null} Null if no worker reported a contract, or the answer is not known yet.
 */
export function useContract(name) {
  const [contract, setContract] = useState(/** @type {Contract | null} */ (null));
  useEffect(() => {
    if (!name) {
      setContract(null);
      return undefined;
    }
    const aborter = new AbortController();
    const timer = setTimeout(() => {
      get(`api/names/${encodeURIComponent(name)}`, {}, aborter.signal).then(
        (answer) => setContract(answer.contracts?.[0] ?? null),
        (error) => {
          // The name is unknown, or this user may not read it. The argument can still be typed as JSON.
          if (error instanceof Problem) setContract(null);
        },
      );
    }, CONTRACT_MS);
    return () => {
      clearTimeout(timer);
      aborter.abort();
    };
  }, [name]);
  return contract;
}

/**
 * @typedef {object} ArgumentState
 * @property {boolean} hasSchema Whether the user can choose fields instead of JSON.
 * @property {boolean} isByFields
 * @property {ArgumentField[]} fields
 * @property {string} text The argument as JSON.
 * @property {FieldProblem[]} problems Texts that do not fit their fields.
 * @property {FieldProblem[]} missing
 * @property {boolean} isRefused Whether the user chose fields, but they cannot show the typed JSON.
 * @property {(mode: "fields" | "json") => void} choose
 * @property {(text: string) => void} give Fills in an argument from another source, such as a copied job.
 */

/**
 * Return the state of the argument in a form. The values of the form must have `argument` and `mode`.
 * @param {import("../ui/forms.js").FormInputs} form
 * @param {Contract | null} contract
 * @returns {ArgumentState}
 */
export function useArgument(form, contract) {
  const { values } = form;
  const schema =
    contract?.argument_schema && hasFields(contract.argument_schema) ? contract.argument_schema : null;
  const [isRefused, setRefused] = useState(false);
  // The text that this hook last put into `argument`. If `argument` still has this text, the fields contain what was
  // typed.
  const given = useRef(values["argument"] ?? "");
  const isByFields = schema !== null && values["mode"] === "fields";
  const fields = useMemo(() => (schema ? fieldsOf(schema, values) : []), [schema, values]);
  const built = useMemo(() => argumentOf(fields, values), [fields, values]);
  const last = useRef(built);
  if (isByFields) last.current = built;
  const typed = values["argument"] ?? "";
  const give = (/** @type {string} */ text, mode = "") => {
    given.current = text;
    form.set({ argument: text, mode });
  };
  const toRaw = (/** @type {"json" | ""} */ mode) => {
    give(isSame(typed, last.current.text) ? typed : toJson(parseExact(last.current.text), 2), mode);
    setRefused(false);
  };
  const toFields = () => {
    // If the JSON is unchanged, keep the fields as they were typed: they contain more than the JSON that was made from
    // them.
    const isUntouched = typed === given.current && fields.some((one) => values[keyOf(one.name)]);
    const changes = isUntouched ? {} : schema && valuesOf(schema, typed, values);
    setRefused(!changes);
    if (!changes) return;
    given.current = typed;
    form.set({ ...changes, mode: "fields" });
  };
  useEffect(() => {
    const { mode } = values;
    if (!schema && mode === "fields") toRaw("");
    // Do not change to fields while somebody types JSON. Do not change either if the argument was left out and must be
    // typed.
    else if (schema && !mode && typed === given.current && !values["left_out"]) toFields();
  }, [schema, values["left_out"]]);
  return {
    hasSchema: schema !== null,
    isByFields,
    fields,
    text: isByFields ? built.text : typed,
    problems: isByFields ? built.problems : [],
    missing: isByFields ? built.missing : [],
    isRefused,
    choose: (mode) => (mode === "fields" ? toFields() : toRaw("json")),
    give,
  };
}

/**
 * @param {string} one
 * @param {string} other
 */
function isSame(one, other) {
  try {
    return toJson(sorted(parseExact(one))) === toJson(sorted(parseExact(other)));
  } catch {
    return false;
  }
}

/**
 * @param {unknown} value
 * @returns {unknown} The same value with the keys of its maps sorted.
 */
function sorted(value) {
  if (Array.isArray(value)) return value.map(sorted);
  if (value === null || typeof value !== "object") return value;
  const members = Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1));
  return Object.fromEntries(members.map(([key, member]) => [key, sorted(member)]));
}

/** @param {{form: import("../ui/forms.js").FormInputs, argument: ArgumentState, problem: Problem | null}} props */
export function ArgumentForm({ form, argument, problem }) {
  const raw = html`<${FormField}
      form=${form} name="argument" as="textarea" rows="9" problem=${problem} label=${t("job.argument")}
      hint=${html`<${JsonHint} />`} spellcheck=${false} />`;
  if (!argument.hasSchema) return raw;
  const { isByFields } = argument;
  const whole = (problem?.errors ?? []).filter((error) => error.loc.join(".") === "argument");
  return html`<div class="stack">
      <div class="row" role="group" aria-label=${t("enqueue.argument.mode")}>
        <${Button}
          class="small" aria-pressed=${String(isByFields)} onClick=${() => argument.choose("fields")}>
          ${t("enqueue.argument.fields")}
        <//>
        <${Button} class="small" aria-pressed=${String(!isByFields)} onClick=${() => argument.choose("json")}>
          ${t("enqueue.argument.raw")}
        <//>
      </div>
      ${argument.isRefused && html`<p class="warning" role="alert">${t("enqueue.argument.no_fields")}</p>`}
      <fieldset class="plain-fields" hidden=${!isByFields}>
        <legend>${t("job.argument")}</legend>
        ${
          whole.length > 0 &&
          html`<p class="field-error">${visible(whole.map((error) => error.msg).join("; "))}</p>`
        }
        <div class="form-grid">
          ${argument.fields.map(
            (field) => html`<${OneField} key=${field.name} form=${form} field=${field} problem=${problem} />`,
          )}
        </div>
      </fieldset>
      ${!isByFields && raw}
    </div>`;
}

/** @param {{form: import("../ui/forms.js").FormInputs, field: ArgumentField, problem: Problem | null}} props */
function OneField({ form, field, problem }) {
  useZone();
  const name = keyOf(field.name);
  const label = `${visible(field.name)}${field.isRequired ? " *" : ""}`;
  const hint = [field.isLoose ? t("enqueue.field.loose") : "", visible(field.hint)].filter(Boolean).join(" ");
  const common = {
    form,
    name,
    label,
    problem,
    path: `argument.${field.name}`,
    hint: field.control === "json" ? [t("enqueue.field.json"), hint].join(" ") : hint || undefined,
    spellcheck: false,
    "aria-required": field.isRequired ? "true" : undefined,
  };
  const usual =
    field.fallback === null || field.fallback.length > 40
      ? ""
      : visible(field.fallback.replace(/^"|"$/g, ""));
  switch (field.control) {
    case "choice":
      return html`<${FormField} ...${common} as="select">
          <option value="">
            ${t(field.isRequired ? "enqueue.field.choose" : "enqueue.field.leave_out")}
          </option>
          ${field.choices.map(
            (one) => html`<option key=${one} value=${one}>${visible(textOfChoice(one))}</option>`,
          )}
        <//>`;
    case "json":
      return html`<${FormField} ...${common} as="textarea" class="short" rows="3" placeholder=${usual} />`;
    case "integer":
    case "number":
      return html`<${FormField} ...${common} inputmode=${field.control === "integer" ? "numeric" : "decimal"} placeholder=${usual} />`;
    case "date":
      return html`<${FormField} ...${common} type="date" max="9999-12-31" />`;
    case "date-time":
      return html`<${FormField}
          ...${common} form=${inPageZone(form)} label=${inZone(label, form.values[name])}
          type="datetime-local" step="1" max=${LATEST} />`;
    case "time":
      return html`<${FormField} ...${common} form=${withSeconds(form)} type="time" step="1" />`;
    default:
      return html`<${FormField} ...${common} placeholder=${usual} />`;
  }
}

/** @param {string} json */
function textOfChoice(json) {
  const value = parseExact(json);
  return typeof value === "string" ? value : json;
}

/**
 * Adapt the form to a browser control for times, which has no time zone. The control shows times in the zone of the
 * page.
 * @param {import("../ui/forms.js").FormInputs} form
 */
const inPageZone = (form) => adapted(form, inputOf, instantIn);
/** @param {import("../ui/forms.js").FormInputs} form */
const withSeconds = (form) =>
  adapted(
    form,
    (text) => text,
    (text) => full(text, 5),
  );

/**
 * @param {string} text
 * @param {number} length The length of a text without seconds.
 */
const full = (text, length) => (text.length === length ? `${text}:00` : text);

/**
 * @param {import("../ui/forms.js").FormInputs} form
 * @param {(text: string) => string} shown
 * @param {(text: string) => string} kept
 * @returns {import("../ui/forms.js").FormInputs}
 */
function adapted(form, shown, kept) {
  return {
    ...form,
    input: (name) => ({
      name,
      value: shown(form.values[name] ?? ""),
      onInput: (/** @type {FieldEvent} */ event) =>
        form.set({ [name]: event.target.value ? kept(event.target.value) : "" }),
    }),
  };
}
