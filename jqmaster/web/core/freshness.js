/**
 * The age of the data of this page. Each second, the stream reports when its data were current, and this module adds
 * the time since then. An open connection does not prove that data are fresh, because the master may have lost its
 * store.
 */
import { useEffect, useState } from "./lib.js";

/** The age from which data are shown as old. */
export const OLD_MS = 5_000;
const EVERY_MS = 1_000;

/** @typedef {{code: string, detail: string}} StoreFault */
/**
 * @typedef {{ageMs: number | null, asOf: string | null, isOld: boolean, fault: StoreFault | null, isPartOld: boolean}} Freshness
 *   `ageMs`, `asOf` (ISO 8601 by the store's clock): null before the first data. `fault`: why the store gives no data.
 *   `isPartOld`: something on the page could not be
 *   loaded again, and its former state is shown.
 */

/** When the data were current, by this browser's clock. @type {number | null} */
let asOfMs = null;
/** When the data were current, by the store's clock. @type {string | null} */
let asOf = null;
/** Whether the stream reports the age of its data. Masters of earlier releases do not report it, and their data count as current while the stream is open. */
let isTold = false;
let isOpen = false;
/** @type {StoreFault | null} */
let fault = null;
/** The resources whose last request failed, and that show old data. @type {Set<object>} */
const failing = new Set();
/** @type {Set<() => void>} */
const listeners = new Set();
let lastLookMs = Date.now();

/** The stream was opened. */
export function opened() {
  isOpen = true;
  isTold = false;
  // Treat the data as current if the master does not report their age, or has not reported it yet.
  asOfMs ??= Date.now();
}

/** The stream broke, or ended. */
export function closed() {
  if (isOpen && !isTold) {
    asOfMs = Date.now();
    asOf = new Date(asOfMs).toISOString();
  }
  isOpen = false;
}

/** Forget everything, for a logout. */
export function forget() {
  closed();
  asOfMs = null;
  asOf = null;
  fault = null;
}

/** @param {{as_of: string | null, age_ms: number | null, fault: StoreFault | null}} event An event `freshness`. */
export function told({ as_of, age_ms, fault: present }) {
  isTold = true;
  if (age_ms !== null) {
    asOfMs = Date.now() - age_ms;
    asOf = as_of;
  }
  fault = present;
  look();
}

/** @param {StoreFault | null} present The fault of the store according to another call, while there is no stream. */
export function toldByAnswer(present) {
  fault = present;
  look();
}

/** @returns {number | null} When the data of the stream were current, as Unix ms of this browser. */
export const streamAsOfMs = () => (isOpen && !isTold ? Date.now() : asOfMs);

/** @param {object} resource @param {boolean} isFailing Whether `resource` shows old data because it could not be loaded again. */
export function note(resource, isFailing) {
  if (isFailing === failing.has(resource)) return;
  if (isFailing) failing.add(resource);
  else failing.delete(resource);
  look();
}

/** @returns {Freshness} */
export function freshness() {
  const since = streamAsOfMs();
  const ageMs = since === null ? null : Math.max(0, Date.now() - since);
  return { ageMs, asOf, isOld: ageMs !== null && ageMs > OLD_MS, fault, isPartOld: failing.size > 0 };
}

/** @returns {Freshness} The component is drawn again each second while data are old, and when this changes. */
export function useFreshness() {
  const [value, setValue] = useState(freshness);
  useEffect(() => {
    const tell = () =>
      setValue((/** @type {Freshness} */ before) => {
        const now = freshness();
        const isSame =
          !now.isOld && !before.isOld && before.fault === now.fault && before.isPartOld === now.isPartOld;
        return isSame ? before : now;
      });
    listeners.add(tell);
    tell();
    return () => void listeners.delete(tell);
  }, []);
  return value;
}

function look() {
  for (const listener of [...listeners]) listener();
}

setInterval(() => {
  const sinceMs = Date.now() - lastLookMs;
  lastLookMs = Date.now();
  // Skip this check if the page was suspended: events that arrived meanwhile are still queued, and will report the age
  // of the data.
  if (!document.hidden && sinceMs < 2 * EVERY_MS) look();
}, EVERY_MS);
