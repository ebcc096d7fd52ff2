/** Preferences that this browser remembers: theme, language, times, columns. Nothing secret is kept. */
import { useEffect, useState } from "./lib.js";

const PREFIX = "jqmaster.";
/** @type {Map<string, Set<(value: any) => void>>} */
const listeners = new Map();
/** @type {Map<string, any>} */
const values = new Map();

/**
 * @param {string} name
 * @param {any} fallback
 * @returns {any}
 */
export function pref(name, fallback) {
  if (!values.has(name)) {
    let value = null;
    try {
      const text = localStorage.getItem(PREFIX + name);
      if (text !== null) value = text.startsWith("{") || text.startsWith("[") ? JSON.parse(text) : text;
    } catch {
      // Storage may be forbidden or hold what another version wrote.
    }
    values.set(name, value);
  }
  return values.get(name) ?? fallback;
}

/**
 * @param {string} name
 * @param {any} value Text, or what JSON can hold; null forgets it.
 */
export function setPref(name, value) {
  values.set(name, value);
  try {
    if (value === null) localStorage.removeItem(PREFIX + name);
    else localStorage.setItem(PREFIX + name, typeof value === "string" ? value : JSON.stringify(value));
  } catch {
    // It holds until the page is closed.
  }
  for (const listener of listeners.get(name) ?? []) listener(value);
}

/**
 * A preference that all components see change at once.
 * @param {string} name
 * @param {any} fallback
 * @returns {[any, (value: any) => void]}
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
