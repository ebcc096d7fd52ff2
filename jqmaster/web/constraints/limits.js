/** Limits of a constraint, or of one value of its key, for forms and lists. The kinds come from the master. */
import { number, t, tOr } from "../core/i18n.js";
import { LIMIT_KINDS } from "./limit_kinds.js";
import { pref } from "../core/prefs.js";
import { visible } from "../core/text.js";
import { durationText, instantText } from "../ui/formats.js";
import { LATEST, inputOf, instantIn } from "../ui/instants.js";

/** @typedef {import("./limit_kinds.js").Figure} Figure */
/** @typedef {import("../../answers").Schemas["WeightView"]} Weight */
/** @typedef {Record<string, unknown>} Limits A constraint, or another document of the API that contains limits. */

export const PER_VALUE = LIMIT_KINDS.filter((kind) => kind.isPerValue);
export const SWITCHES = LIMIT_KINDS.filter((kind) => kind.figures.length === 0);

/** @param {unknown} document @param {string[]} path */
const at = (document, path) =>
  path.reduce((part, step) => /** @type {Limits | null | undefined} */ (part)?.[step], document);

/** @param {Figure} figure Returns the attributes of its input. */
export const inputFor = ({ unit, min }) => {
  if (unit === "instant") return { type: "datetime-local", step: "1", max: LATEST };
  if (unit === "text") return { type: "text", maxlength: "256", spellcheck: false };
  return { type: "number", step: unit === "count" ? "1" : "any", min };
};

/** @param {Figure} figure @param {Limits | null} document @returns {string} The text that the input of the figure shows. */
export const figureText = ({ unit, path }, document) => {
  const value = at(document, path);
  return unit === "instant" ? inputOf(String(value ?? "")) : String(value ?? "");
};

/** @param {Figure} figure @param {string} text The text of the figure's input, not empty. @returns {number | string} The value for the API. */
export const figureValue = ({ unit }, text) => {
  if (unit === "text") return text.trim();
  return unit === "instant" ? instantIn(text) : Number(text);
};

/**
 * Convert a document to values of a form: figures as text, switches as "yes" or "".
 * @param {Limits | null} document null: it has no limits.
 * @returns {Record<string, string>}
 */
export function formOf(document) {
  return Object.fromEntries(
    LIMIT_KINDS.flatMap(({ name, figures, isOn }) =>
      figures.length === 0
        ? [[name, (document?.[name] ?? isOn) ? "yes" : ""]]
        : figures.map((figure) => [figure.name, figureText(figure, document)]),
    ),
  );
}

/**
 * Return the limits in a form, as the API takes them. If one figure of a limit is given, send all figures of this
 * limit, except numbers and texts that have a default.
 * @param {Record<string, string | undefined>} form
 * @param {import("./limit_kinds.js").LimitKind[]} kinds
 */
export function limitsIn(form, kinds) {
  /** @type {Limits} */
  const limits = {};
  for (const { name, figures, isOn } of kinds) {
    if (figures.length === 0) {
      if (Boolean(form[name]) !== isOn) limits[name] = !isOn;
    } else if (figures.some((figure) => form[figure.name])) {
      for (const figure of figures) {
        if ((figure.unit === "text" || figure.unit === "number") && !form[figure.name]) continue;
        const value = figureValue(figure, form[figure.name] ?? "");
        if (figure.path.length === 1) limits[name] = value;
        else
          limits[name] = {
            .../** @type {Limits | undefined} */ (limits[name]),
            [figure.path[1] ?? ""]: value,
          };
      }
    }
  }
  return limits;
}

/**
 * Return the limits that a document sets. Leave out the limits that it does not set.
 * @param {Limits | null} document
 * @param {import("./limit_kinds.js").LimitKind[]} kinds
 */
export function limitsOf(document, kinds) {
  const given = kinds.filter(({ name, isOn }) => (document?.[name] ?? isOn) !== isOn);
  return Object.fromEntries(given.map(({ name }) => [name, document?.[name]]));
}

const IN_UNITS = ["concurrency", "rate"];

/**
 * @param {Limits & {weight?: Weight | null}} document
 * @param {string} [unit] The unit that its limits count; undefined: jobs.
 * @returns {string[]} Each limit that has figures, in words.
 */
export function limitTexts(document, unit = document.weight?.unit) {
  return LIMIT_KINDS.filter(
    ({ name, figures }) => figures.length > 0 && (document[name] ?? null) !== null,
  ).map(({ name, figures }) => {
    if (document.weight && name === "weight") return weightText(document.weight);
    const { count, seconds, instant } = Object.fromEntries(
      figures.map(({ unit, path }) => [unit, at(document, path)]),
    );
    return t(unit && IN_UNITS.includes(name) ? `limit.${name}.units` : `limit.${name}`, {
      ...(typeof count === "number" && { count }),
      ...(unit && { unit }),
      ...(typeof seconds === "number" && {
        duration: tOr(`period.${seconds}`, durationText(seconds * 1000)),
      }),
      ...(typeof instant === "string" && { at: instantText(Date.parse(instant), pref("times", "relative")) }),
    });
  });
}

/** @param {Weight} weight */
const weightText = (weight) =>
  weight.from === null
    ? t("limit.weight.same", { default: number(weight.default), unit: weight.unit })
    : t("limit.weight", { from: visible(weight.from), default: number(weight.default) });
