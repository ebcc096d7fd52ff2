/** Values of the audit log in words: requests, limits and outcomes. */
import { toJson } from "../core/api.js";
import { scheduleText } from "../definitions/schedules.js";
import { number, t, tOr } from "../core/i18n.js";
import { limitTexts } from "../constraints/limits.js";
import { pref } from "../core/prefs.js";
import { ruleText } from "../matching/rule_builder.js";
import { durationText, instantText } from "../ui/formats.js";

/** Keys with data of users. Their values are always shown as JSON. */
const DATA = ["argument", "headers", "payload", "value", "params"];
/** @type {Record<string, string>} By key of a value: the prefix of the text keys under which its words have a text. */
const WORDS = {
  catch_up: "definitions.catch_up.",
  cause: "cause.",
  group_by: "notices.group_by.",
  kind: "definitions.kind_of.",
  mode: "constraints.",
  overlap: "definitions.overlap.",
  role: "access.role.",
  state: "action.state.",
  when: "notices.when.",
};
const UUID = /[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/;
const TOKEN = /^(?:token:)?([0-9a-f]{8,12})$/;
const INSTANT_KEY = /(^|_)(at|from|to|until|after|before|since)_ms$/;
const INSTANT = /^\d{4}-\d\d-\d\dT\d\d:\d\d/;

/** @param {unknown} value @returns {value is Record<string, unknown>} */
export const isMap = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

/** @param {string} text @returns {string} The text, with each UUID cut to its end, by which people tell UUIDs apart. */
export const shortId = (text) => text.replace(UUID, (id) => `…${id.slice(-10)}`);

/** @param {string} who A user, a token or a master, as the audit log names it. @returns {string} */
export function whoText(who) {
  const id = TOKEN.exec(who)?.[1];
  return id ? t("audit.token", { id }) : shortId(who.replace(/^user:/, ""));
}

/** @param {unknown} value @returns {boolean} Whether the value says nothing about the created object. */
export const isDefault = (value) =>
  value === false || value === "" || value === null || (Array.isArray(value) && value.length === 0);

/** @param {string} key The key of a member of a document. @returns {string} */
export const keyWords = (key) =>
  tOr(`audit.field.${key}`, "") ||
  tOr(`audit.field.${withoutUnit(key)}`, "") ||
  tOr(`filter.${key}`, "").toLowerCase() ||
  tOr(`settings.label.${key}`, withoutUnit(key).replaceAll("_", " "));

/** @param {string} key @returns {string} The key without its unit, which is shown with the number. */
const withoutUnit = (key) => key.replace(/_(ms|s)$/, "");

/** @param {number} ms @returns {string} */
const instantWords = (ms) => instantText(ms, pref("times", "relative"));

/** @param {Record<string, unknown>} filter A filter of jobs, as stored. @returns {string} */
function filterWords(filter) {
  const words = Object.entries(filter).map(([key, value]) => {
    if (key === "matcher") return ruleText(value) ?? toJson(value);
    const label = tOr(`filter.${withoutUnit(key)}`, keyWords(key));
    const text =
      key === "state" || key === "cause" ? tOr(`${key}.${value}`, String(value)) : wordsOf(key, value);
    return `${label}: ${text}`;
  });
  return words.join(" · ") || t("audit.filter.all");
}

/** @param {Record<string, unknown>} override Limits of one value of a key, or of all values with jobs that meet a condition. @returns {string} */
function overrideWords(override) {
  const { match, value: of } = override;
  const value = match ? (ruleText(match) ?? toJson(match)) : typeof of === "string" ? of : toJson(of);
  const limits = [...limitTexts(override), ...(override.paused ? [t("audit.field.paused")] : [])];
  return `${value}: ${limits.join(", ") || t("audit.no_limit")}`;
}

/** @param {string} key @param {number} value @returns {string} */
function figureWords(key, value) {
  if (INSTANT_KEY.test(key)) return instantWords(value);
  if (/_ms$/.test(key)) return durationText(value);
  if (/_s$/.test(key) || key === "timeout") return durationText(value * 1000);
  return key === "pid" || key === "port" ? String(value) : number(value);
}

/** @param {string} key @param {string} text @returns {string} */
function textWords(key, text) {
  if (INSTANT.test(text) && !Number.isNaN(Date.parse(text))) return instantWords(Date.parse(text));
  return key in WORDS ? tOr(`${WORDS[key]}${text}`, text) : text;
}

/**
 * @param {string} key The member of a document that has the value.
 * @param {unknown} value
 * @returns {string}
 */
export function wordsOf(key, value) {
  if (value === null || value === undefined) return "–";
  if (typeof value === "boolean") return t(value ? "audit.yes" : "audit.no");
  if (typeof value === "string") return textWords(key, value);
  if (DATA.includes(key)) return toJson(value);
  if (typeof value === "number") return figureWords(key, value);
  if (Array.isArray(value)) {
    if (key === "overrides") return value.filter(isMap).map(overrideWords).join("; ") || t("none");
    return value.map((one) => wordsOf(key, one)).join(value.some(isMap) ? "; " : ", ") || t("none");
  }
  if (!isMap(value)) return toJson(value);
  if (key === "filter") return filterWords(value);
  if (key === "rate" && "limit" in value) return limitTexts({ rate: value }).join(", ");
  if (key === "matcher" || key === "when_matches") return ruleText(value) ?? toJson(value);
  if (key === "schedule") return scheduleText(/** @type {Parameters<typeof scheduleText>[0]} */ (value));
  const members = Object.entries(value).filter(([, part]) => !isDefault(part));
  return members.map(([name, part]) => `${keyWords(name)}: ${wordsOf(name, part)}`).join(" · ") || t("none");
}
