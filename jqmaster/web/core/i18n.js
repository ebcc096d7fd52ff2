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
  // The page contains the address of each language: a file with a hash, or a plain module during development.
  const address = document.documentElement.getAttribute(`data-language-${code}`) ?? "";
  loaded[code] ??= (await import(new URL(address, document.baseURI).href)).default;
}

/** @param {Code} code The language to use. It takes effect when its texts are loaded. */
export async function setLanguage(code) {
  await load(code);
  setPref("language", code);
}

// Wait for the texts here, so that modules that import this one can use them at once.
await load(language());

/**
 * Return the text of `key`, with `{name}` replaced by `values.name`. If the text has the form `one||many`,
 * `values.count` selects the part.
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
 * Return the text of `key`, or `fallback` if this page has no such text: a newer master may send words that the page
 * does not know.
 * @param {string} key
 * @param {string} fallback
 */
export function tOr(key, fallback) {
  return loaded[language()]?.[key] ?? fallback;
}

/** The formats that were created, because creating one takes longer than drawing a row. @type {Map<string, Intl.NumberFormat>} */
const numberFormats = new Map();

/**
 * Return a number in the format of the reader's language.
 * @param {number | bigint} value
 * @param {Intl.NumberFormatOptions} [options]
 */
export function number(value, options) {
  const key = `${language()} ${options ? JSON.stringify(options) : ""}`;
  const format = numberFormats.get(key) ?? new Intl.NumberFormat(language(), options);
  numberFormats.set(key, format);
  return format.format(value);
}
