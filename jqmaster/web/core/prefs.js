/** Preferences that this browser remembers: theme, language, times, columns. Nothing secret is kept. */
import { useEffect, useState } from "./lib.js";

/**
 * @typedef {object} Preferences
 * @property {string} theme
 * @property {string | null} language
 * @property {string} times
 * @property {string} keys
 * @property {string} density
 * @property {string} flow
 * @property {string[] | null} columns
 * @property {string[]} acknowledged The keys of faults.
 * @property {Record<string, number>} snoozed By key of the fault: the time until which it is snoozed, as Unix ms.
 */
/** @typedef {keyof Preferences | "failures.path"} Name */
/** @template {Name} Of @typedef {Of extends keyof Preferences ? Preferences[Of] : string} Preference */

const PREFIX = "jqmaster.";
/** @type {Map<Name, Set<() => void>>} */
const listeners = new Map();
/** @type {Map<Name, unknown>} The stored values. They are not checked against their types. */
const values = new Map();

/**
 * @template {Name} Of
 * @param {Of} name
 * @param {Preference<Of>} fallback
 * @returns {Preference<Of>}
 */
export function pref(name, fallback) {
  if (!values.has(name)) {
    /** @type {unknown} */
    let value = null;
    try {
      const text = localStorage.getItem(PREFIX + name);
      if (text !== null) value = text.startsWith("{") || text.startsWith("[") ? JSON.parse(text) : text;
    } catch {
      // Storage is forbidden, or contains a value of another version.
    }
    values.set(name, value);
  }
  return /** @type {Preference<Of> | null} */ (values.get(name)) ?? fallback;
}

/**
 * @template {Name} Of
 * @param {Of} name
 * @param {Preference<Of> | null} value Text, or a value that JSON can hold; null forgets the preference.
 */
export function setPref(name, value) {
  values.set(name, value);
  try {
    if (value === null) localStorage.removeItem(PREFIX + name);
    else localStorage.setItem(PREFIX + name, typeof value === "string" ? value : JSON.stringify(value));
  } catch {
    // The preference is not stored, and lasts until the page is closed.
  }
  for (const listener of listeners.get(name) ?? []) listener();
}

/**
 * Return a preference and its setter. All components see a change at once.
 * @template {Name} Of
 * @param {Of} name
 * @param {Preference<Of>} fallback
 * @returns {[Preference<Of>, (value: Preference<Of> | null) => void]}
 */
export function usePref(name, fallback) {
  const [, redraw] = useState(0);
  useEffect(() => {
    const listener = () => redraw((/** @type {number} */ n) => n + 1);
    const all = listeners.get(name) ?? new Set();
    listeners.set(name, all.add(listener));
    return () => void all.delete(listener);
  }, [name]);
  return [pref(name, fallback), (value) => setPref(name, value)];
}
