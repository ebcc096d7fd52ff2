/** The argument of a job as fields, built from the JSON Schema that workers report for its name. */
import { parseExact, toJson } from "../core/api.js";
import { t } from "../core/i18n.js";

/** @typedef {Record<string, any>} Schema The schema that workers report. Nobody has checked it. */
/** @typedef {"text" | "integer" | "number" | "choice" | "date" | "time" | "date-time" | "json"} Control */

/**
 * One parameter. `isLoose`: the argument has this parameter, but the schema does not.
 * @typedef {object} ArgumentField
 * @property {string} name
 * @property {Control} control
 * @property {boolean} isRequired
 * @property {boolean} isNullable
 * @property {string[]} choices JSON texts, for a choice.
 * @property {string} hint
 * @property {string | null} fallback JSON text of the default.
 * @property {boolean} isLoose
 */

/** @typedef {import("../core/api.js").FieldProblem} FieldProblem */

const INTEGER = /^-?(0|[1-9]\d*)$/;
const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?$/;
const UTC_INSTANT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,3})?Z$/;
const DATE = /^\d{4}-\d\d-\d\d$/;
const TIME = /^\d\d:\d\d(:\d\d(\.\d{1,3})?)?$/;
// Prefixes of the names of form values that belong to a parameter. Without them, a parameter could have the same name
// as another field.
const TYPED = "argument.";
const SHOWN_AS = "argument as.";
const EXAMPLES = /** @type {Record<string, string>} */ ({
  duration: "PT1H30M",
  uuid: "0190c0de-0000-7000-8000-000000000000",
  byte: "aGVsbG8=",
  decimal: "12.50",
});

/**
 * @param {Schema | null | undefined} schema
 * @returns {boolean} Whether an argument of this schema is a map whose keys are known.
 */
export function hasFields(schema) {
  return Boolean(
    schema && typesOf(schema).includes("object") && Object.keys(schema["properties"] ?? {}).length > 0,
  );
}

/**
 * @param {Schema} schema
 * @param {Record<string, string>} values The values of the form.
 * @returns {ArgumentField[]}
 */
export function fieldsOf(schema, values) {
  const required = /** @type {string[]} */ (schema["required"] ?? []);
  const properties = /** @type {Record<string, Schema>} */ (schema["properties"]);
  const known = Object.entries(properties).map(([name, one]) =>
    fieldOf(name, one, schema, required.includes(name)),
  );
  const loose = Object.keys(values)
    .filter((key) => key.startsWith(TYPED) && values[key]?.trim())
    .map((key) => key.slice(TYPED.length))
    .filter((name) => !Object.hasOwn(properties, name))
    .map((name) => ({ ...fieldOf(name, {}, schema, false), isLoose: true }));
  return [...known, ...loose].map((field) => {
    const shownAs = /** @type {Control | undefined} */ (values[SHOWN_AS + field.name]);
    return shownAs ? { ...field, control: shownAs } : field;
  });
}

/**
 * @param {string} name
 * @returns {string} The key of the parameter's text in the values of the form.
 */
export const keyOf = (name) => TYPED + name;

/**
 * @param {string} name
 * @param {Schema} given
 * @param {Schema} root
 * @param {boolean} isRequired
 * @returns {ArgumentField}
 */
function fieldOf(name, given, root, isRequired) {
  const { schema, isNullable } = resolved(given, root);
  const about = given["description"] ?? schema["description"];
  const example = EXAMPLES[schema["format"]];
  const fallback = Object.hasOwn(given, "default") ? toJson(given["default"]) : null;
  return {
    name,
    control: controlOf(schema),
    isRequired,
    isNullable,
    choices: choicesOf(schema),
    hint: [
      typeof about === "string" ? about : "",
      rangeOf(schema),
      example ? t("enqueue.field.example", { text: example }) : "",
      fallback === null ? "" : t("enqueue.field.default", { value: fallback.slice(0, 80) }),
    ]
      .filter(Boolean)
      .join(" "),
    fallback,
    isLoose: false,
  };
}

/**
 * Return the schema with its references resolved, and without its null alternative.
 * @param {Schema} schema
 * @param {Schema} root
 * @returns {{schema: Schema, isNullable: boolean}}
 */
function resolved(schema, root) {
  let found = schema;
  let isNullable = false;
  // Follow a limited number of references, because a reference may lead to itself.
  for (let n = 0; n < 20; n++) {
    const reference = found["$ref"];
    const options = found["anyOf"] ?? found["oneOf"];
    const only = found["allOf"];
    if (typeof reference === "string" && reference.startsWith("#/$defs/")) {
      found = root["$defs"]?.[reference.slice("#/$defs/".length)] ?? {};
    } else if (Array.isArray(options)) {
      const others = options.filter((/** @type {Schema} */ one) => one?.["type"] !== "null");
      if (others.length < options.length) isNullable = true;
      if (others.length !== 1) break;
      found = others[0];
    } else if (
      Array.isArray(only) &&
      only.length === 1 &&
      Object.keys(found).every((key) => key === "allOf" || key === "default")
    ) {
      found = only[0];
    } else break;
  }
  const types = typesOf(found);
  if (types.includes("null") || found["enum"]?.includes(null)) isNullable = true;
  return { schema: found, isNullable };
}

/**
 * @param {Schema} schema
 * @returns {string[]}
 */
const typesOf = (schema) => (Array.isArray(schema["type"]) ? schema["type"] : [schema["type"]]);

/**
 * @param {Schema} schema
 * @returns {string[]}
 */
function choicesOf(schema) {
  if (Array.isArray(schema["enum"])) return schema["enum"].map((value) => toJson(value));
  if (Object.hasOwn(schema, "const")) return [toJson(schema["const"])];
  return typesOf(schema).join() === "boolean" ? ["true", "false"] : [];
}

/**
 * @param {Schema} schema
 * @returns {Control}
 */
function controlOf(schema) {
  if (choicesOf(schema).length > 0) return "choice";
  const types = typesOf(schema).filter((type) => type !== "null");
  if (types.join() === "string,number" && schema["format"] === "decimal") return "text";
  if (types.length !== 1) return "json";
  if (types[0] === "integer" || types[0] === "number") return types[0];
  if (types[0] !== "string") return "json";
  const format = schema["format"];
  return format === "date" || format === "time" || format === "date-time" ? format : "text";
}

/**
 * @param {Schema} schema
 * @returns {string} The limits of size in the schema, in words.
 */
function rangeOf(schema) {
  const least = schema["minimum"] ?? schema["minLength"] ?? schema["minItems"];
  const most = schema["maximum"] ?? schema["maxLength"] ?? schema["maxItems"];
  const what = typesOf(schema).includes("string")
    ? "length"
    : typesOf(schema).includes("array")
      ? "items"
      : "value";
  if (schema["format"] === "byte" || (least === undefined && most === undefined)) return "";
  const side = least === undefined ? "most" : most === undefined ? "least" : "range";
  return t(`enqueue.field.${what}.${side}`, { least: String(least), most: String(most) });
}

/**
 * Return the values of the fields for an argument, or null if the argument is not a map, which fields cannot show.
 * @param {Schema} schema
 * @param {string} text JSON; empty: no argument.
 * @param {Record<string, string>} values The values of the form.
 * @returns {Record<string, string> | null} Changes to the values of the form.
 */
export function valuesOf(schema, text, values) {
  let argument;
  try {
    argument = text.trim() ? parseExact(text) : {};
  } catch {
    return null;
  }
  if (argument === null) argument = {};
  if (typeof argument !== "object" || Array.isArray(argument)) return null;
  /** @type {Record<string, string>} */
  const changes = {};
  for (const key of Object.keys(values))
    if (key.startsWith(TYPED) || key.startsWith(SHOWN_AS)) changes[key] = "";
  const fields = new Map(fieldsOf(schema, {}).map((field) => [field.name, field]));
  for (const [name, value] of Object.entries(argument)) {
    const field = fields.get(name) ?? fieldOf(name, {}, schema, false);
    const [typed, shownAs] = textOf(field, value);
    changes[TYPED + name] = typed;
    changes[SHOWN_AS + name] = shownAs;
  }
  return changes;
}

/**
 * Return the text of the field for this value, and the control for the text if it is not the field's usual control.
 * @param {ArgumentField} field
 * @param {unknown} value
 * @returns {[string, Control | ""]}
 */
function textOf(field, value) {
  const json = toJson(value);
  if (field.control === "json") return [toJson(value, 2), ""];
  // Show null as an empty field if an empty field means null.
  if (
    value === null &&
    field.isNullable &&
    (field.isRequired || field.fallback === "null") &&
    field.control !== "choice"
  )
    return ["", ""];
  if (field.control === "choice") return field.choices.includes(json) ? [json, ""] : [json, "json"];
  if (field.control === "integer" || field.control === "number") {
    const rule = field.control === "integer" ? INTEGER : NUMBER;
    return rule.test(json) ? [json, ""] : [json, "json"];
  }
  if (typeof value !== "string" || value.trim() === "") return [json, "json"];
  const rule = { "date-time": UTC_INSTANT, date: DATE, time: TIME }[/** @type {string} */ (field.control)];
  return [value, rule && !rule.test(value) ? "text" : ""];
}

/**
 * Build the argument from the fields. If a text does not fit its field, `problems` names the field, and the argument
 * contains the text.
 * @param {ArgumentField[]} fields
 * @param {Record<string, string>} values The values of the form.
 * @returns {{text: string, problems: FieldProblem[], missing: FieldProblem[]}} `missing`: required fields that are empty.
 */
export function argumentOf(fields, values) {
  const members = [];
  const problems = [];
  const missing = [];
  for (const field of fields) {
    const typed = values[TYPED + field.name] ?? "";
    const key = JSON.stringify(field.name);
    const loc = ["argument", field.name];
    if (typed.trim() === "") {
      if (!field.isRequired) continue;
      if (field.isNullable) members.push(`${key}:null`);
      else missing.push({ loc, msg: t("enqueue.field.missing") });
      continue;
    }
    const { text, fault } = memberOf(field.control, typed);
    members.push(`${key}:${text}`);
    if (fault) problems.push({ loc, msg: fault });
  }
  return { text: `{${members.join(",")}}`, problems, missing };
}

/**
 * @param {Control} control
 * @param {string} typed
 * @returns {{text: string, fault: string}} `text`: the value as JSON. `fault`: why the typed text does not fit; empty
 *   if it fits.
 */
function memberOf(control, typed) {
  const trimmed = typed.trim();
  if (control === "integer" || control === "number") {
    const fits = (control === "integer" ? INTEGER : NUMBER).test(trimmed);
    return {
      text: fits ? trimmed : JSON.stringify(typed),
      fault: fits ? "" : t(`enqueue.field.no_${control}`),
    };
  }
  if (control !== "choice" && control !== "json") return { text: JSON.stringify(typed), fault: "" };
  try {
    parseExact(trimmed);
    return { text: trimmed, fault: "" };
  } catch (error) {
    const why = error instanceof Error ? error.message : "";
    return { text: JSON.stringify(typed), fault: `${t("enqueue.field.no_json")}: ${why}` };
  }
}
