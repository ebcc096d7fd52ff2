/** Every text of the interface, in the reader's language. One language is loaded at a time, before anything is drawn. */
import { pref, setPref } from "./prefs.js";

/** @typedef {Record<string, string>} Texts */

/** The languages by their codes, each with its name for itself. */
export const LANGUAGES = { en: "English", ja: "日本語" };
/** @typedef {keyof typeof LANGUAGES} Code */

/** @param {string | null} code @returns {code is Code} */
export const isLanguage = (code) => code !== null && Object.hasOwn(LANGUAGES, code);

/** @type {Partial<Record<Code, Texts>>} */
const loaded = {};

/** @returns {Code} */
export function language() {
  const chosen = pref("language", null);
  if (isLanguage(chosen)) return chosen;
  return (navigator.languages ?? [navigator.language]).some((tag) => tag.startsWith("ja")) ? "ja" : "en";
}

/** @param {Code} code */
async function load(code) {
  // The page names the address of each language: a file with a hash, or a plain module during development.
  const address = document.documentElement.getAttribute(`data-language-${code}`) ?? "";
  loaded[code] ??= (await import(new URL(address, document.baseURI).href)).default;
}

/** @param {Code} code Takes effect when its texts are there. */
export async function setLanguage(code) {
  await load(code);
  setPref("language", code);
}

// Wait for the texts here, so that modules that import this one can use them at once.
await load(language());

/**
 * The text of `key`, with `{name}` replaced by `values.name`. A text of the form `one||many` is chosen by `values.count`.
 * @param {string} key
 * @param {Record<string, string | number>} [values]
 * @returns {string}
 */
export function t(key, values = {}) {
  let text = loaded[language()]?.[key] ?? key;
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
  return loaded[language()]?.[key] ?? fallback;
}

/** The formats that were created, because creating one takes longer than drawing a row. @type {Map<string, Intl.NumberFormat>} */
const numberFormats = new Map();

/**
 * A number as the reader writes it.
 * @param {number | bigint} value
 * @param {Intl.NumberFormatOptions} [options]
 */
export function number(value, options) {
  const key = `${language()} ${options ? JSON.stringify(options) : ""}`;
  const format = numberFormats.get(key) ?? new Intl.NumberFormat(language(), options);
  numberFormats.set(key, format);
  return format.format(value);
}
