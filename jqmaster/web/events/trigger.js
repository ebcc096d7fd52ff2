/** Convert the trigger of a definition of kind event between API documents, form fields and words. */
import { Problem, parseExact, toJson } from "../core/api.js";
import { asNumber } from "../definitions/schedules.js";
import { number, t } from "../core/i18n.js";
import { durationText } from "../ui/formats.js";
import { visible } from "../core/text.js";

/** @typedef {import("../../answers").Schemas["DefinitionView"]} Definition */

/** @typedef {import("../ui/forms.js").Values} Values */

export const ARGUMENT_WAYS = ["payload", "parts", "fixed"];
export const GATHERINGS = ["none", "debounce", "collect"];
/** @type {{none: string[], debounce: string[], collect: string[]}} The fields of each way to combine events. */
export const FIGURES = {
  none: [],
  debounce: ["wait_s", "max_s"],
  collect: ["max", "within_s"],
};
const MATCHER = { field: "payload.total", op: "ge", value: 100 };
const MAPPING = { order: { from: "payload.order" } };

/** @param {unknown} argument @returns {boolean} Whether the argument is the unchanged payload. */
const isPayload = (argument) =>
  argument !== null && typeof argument === "object" && "from" in argument && argument.from === "payload";

/** @param {Definition | null} one A definition; null: a new definition. @returns {Values} The fields of a form. */
export function valuesOfTrigger(one) {
  const gathering = one?.debounce ? "debounce" : one?.collect ? "collect" : "none";
  const figures = /** @type {Record<string, unknown>} */ (one?.debounce ?? one?.collect ?? {});
  const text = (/** @type {string} */ name, /** @type {string} */ blank) =>
    gathering !== "none" && name in figures ? (figures[name] === null ? "" : String(figures[name])) : blank;
  const argument = one?.argument ?? null;
  return {
    event_type: one?.event_type ?? "",
    matching: one?.matcher ? "some" : "all",
    matcher: toJson(one?.matcher ?? MATCHER, 2),
    argument_way:
      argument !== null
        ? isPayload(argument)
          ? "payload"
          : "parts"
        : one?.kind === "event"
          ? "fixed"
          : "payload",
    mapping: toJson(argument === null || isPayload(argument) ? MAPPING : argument, 2),
    gathering,
    wait_s: text("wait_s", "5"),
    max_s: text("max_s", ""),
    max: text("max", "100"),
    within_s: text("within_s", "10"),
    gathering_key: String(figures["key"] ?? ""),
  };
}

/**
 * @param {Values} values
 * @returns {string} The members of a request that say which events start the job. JSON in them stays as it was typed.
 */
export function triggerIn(values) {
  const matcher = values["matching"] === "some" ? typedJson(values, "matcher", ["matcher"]) : "null";
  const argument = values["argument_way"] === "parts" ? typedJson(values, "mapping", ["argument"]) : "null";
  const gathering = /** @type {keyof typeof FIGURES} */ (values["gathering"] ?? "none");
  const key = (values["gathering_key"] ?? "").trim() || null;
  const figures = Object.fromEntries(FIGURES[gathering].map((name) => [name, asNumber(values[name])]));
  const gathered = (/** @type {string} */ way) => (way === gathering ? { ...figures, key } : null);
  const rest = {
    kind: "event",
    event_type: (values["event_type"] ?? "").trim() || null,
    debounce: gathered("debounce"),
    collect: gathered("collect"),
  };
  return `"matcher":${matcher},"argument":${argument},${toJson(rest).slice(1, -1)}`;
}

/** @param {Values} values @param {string} name @param {string[]} loc @returns {string} */
function typedJson(values, name, loc) {
  const text = (values[name] ?? "").trim();
  try {
    parseExact(text);
  } catch (error) {
    const msg = `${t("events.not_json")}: ${error instanceof Error ? error.message : ""}`;
    throw new Problem(422, { title: msg, errors: [{ loc, msg }] });
  }
  return text;
}

/** @param {Definition} one A definition of kind event. @returns {string} How the definition combines events, in words; "" if each event starts a job. */
export function gatheringText({ debounce, collect }) {
  const duration = (/** @type {number} */ s) => durationText(s * 1000);
  const parts = debounce
    ? [
        t("events.debounce.text", { wait: duration(debounce.wait_s) }),
        debounce.max_s !== null && t("events.debounce.most", { most: duration(debounce.max_s) }),
      ]
    : collect
      ? [t("events.collect.text", { count: number(collect.max), within: duration(collect.within_s) })]
      : [];
  const key = (debounce ?? collect)?.key;
  return [...parts, key && t("events.gathered_by", { key: visible(key) })].filter(Boolean).join(" ");
}
