/** Every text of the interface, in the reader's language; English where a translation is missing. */
import { pref } from "./prefs.js";
import en from "./lang/en.js";
import enForms from "./lang/en_forms.js";
import enLists from "./lang/en_lists.js";
import enOperations from "./lang/en_operations.js";
import enStatistics from "./lang/en_statistics.js";
import ja from "./lang/ja.js";
import jaForms from "./lang/ja_forms.js";
import jaLists from "./lang/ja_lists.js";
import jaOperations from "./lang/ja_operations.js";
import jaStatistics from "./lang/ja_statistics.js";

/** @typedef {Record<string, string>} Texts */

/** @type {Record<string, Texts>} */
export const LANGUAGES = {
  en: { ...en, ...enForms, ...enLists, ...enOperations, ...enStatistics },
  ja: { ...ja, ...jaForms, ...jaLists, ...jaOperations, ...jaStatistics },
};

/** @returns {string} "en" or "ja". */
export function language() {
  const chosen = pref("language", null);
  if (chosen in LANGUAGES) return chosen;
  return (navigator.languages ?? [navigator.language]).some((tag) => tag.startsWith("ja")) ? "ja" : "en";
}

/**
 * The text of `key`, with `{name}` replaced by `values.name`. A text of the form `one||many` is chosen by `values.count`.
 * @param {string} key
 * @param {Record<string, string | number>} [values]
 * @returns {string}
 */
export function t(key, values = {}) {
  let text = LANGUAGES[language()]?.[key] ?? LANGUAGES["en"]?.[key] ?? key;
  if (text.includes("||")) {
    const [one = "", many = ""] = text.split("||");
    text = Number(values["count"]) === 1 ? one : many;
  }
  return text.replace(/\{(\w+)\}/g, (whole, name) => {
    const value = values[name];
    return value === undefined ? whole : typeof value === "number" ? number(value) : value;
  });
}

/**
 * The text of `key`, or `fallback` where there is none: for words that a newer master may know and this page does not.
 * @param {string} key
 * @param {string} fallback
 */
export function tOr(key, fallback) {
  return LANGUAGES[language()]?.[key] ?? LANGUAGES["en"]?.[key] ?? fallback;
}

/**
 * A number as the reader writes it.
 * @param {number | bigint} value
 * @param {Intl.NumberFormatOptions} [options]
 */
export function number(value, options) {
  return new Intl.NumberFormat(language(), options).format(value);
}
