/** An index of objects by name, in this browser, so that the palette answers each key at once. */
import { titleOf } from "../batches/parts.js";
import { Problem, get } from "../core/api.js";
import { visible } from "../core/text.js";

/**
 * One object. `id`: its ID in the address; `label`: its text for people; `text`: the searched text, in lower case.
 * @typedef {{kind: "name" | "batch" | "constraint" | "definition" | "calendar" | "worker" | "event", id: string,
 *   label: string, hint?: string, text: string, isFresh?: boolean}} Entry
 *   `isFresh`: for a worker: whether it takes jobs.
 */
/** @typedef {{who: string, atMs: number, entries: Entry[], isWhole: boolean}} Index `isWhole`: the index has every name. */

const FRESH_MS = 20_000;
const MAX_NAMES = 500;
const MAX_LISTED = 200;
const EVENTS_READ = 100;

/** @type {Index | null} */
let index = null;

/** @param {string} who @returns {Index | null} The index that this reader loaded last. */
export const knownIndex = (who) => (index?.who === who ? index : null);

/**
 * @param {string} who The reader. Another reader may see other objects.
 * @param {AbortSignal} signal
 * @returns {Promise<Index>}
 */
export async function loadIndex(who, signal) {
  const known = knownIndex(who);
  if (known && Date.now() - known.atMs < FRESH_MS) return known;
  const [names, batches, workers, constraints, definitions, calendars, events] = await Promise.allSettled([
    get("api/names", { limit: MAX_NAMES }, signal),
    get("api/batches", { limit: MAX_LISTED }, signal),
    get("api/workers", {}, signal),
    get("api/constraints", {}, signal),
    get("api/definitions", { limit: MAX_LISTED }, signal),
    get("api/calendars", {}, signal),
    get("api/events", { limit: EVENTS_READ }, signal),
  ]);
  const namesFound = valueOf(names)?.names ?? [];
  const definitionsFound = valueOf(definitions)?.definitions ?? [];
  const types = new Set((valueOf(events)?.events ?? []).map((event) => event.event_type));
  const entries = [
    ...namesFound.map(({ name }) => entry("name", name)),
    ...(valueOf(constraints)?.constraints ?? []).map((one) =>
      entry("constraint", one.name, { more: one.reason }),
    ),
    ...definitionsFound.map(({ name }) => entry("definition", name)),
    ...(valueOf(workers)?.workers ?? []).map((one) => ({
      ...entry("worker", one.id, { label: one.node_id || one.id, hint: one.id, more: one.version }),
      isFresh: one.state === "fresh",
    })),
    ...(valueOf(batches)?.batches ?? []).map((one) =>
      entry("batch", one.id, { label: titleOf(one), hint: one.id }),
    ),
    ...(valueOf(calendars)?.calendars ?? []).map((one) => entry("calendar", one.name, { more: one.country })),
    ...[...types].map((type) => entry("event", type)),
  ];
  const isWhole =
    namesFound.length < MAX_NAMES &&
    definitionsFound.length < MAX_LISTED &&
    ![names, batches, constraints, definitions].some(isMissing);
  signal.throwIfAborted();
  index = { who, atMs: Date.now(), entries, isWhole };
  return index;
}

/** @param {PromiseSettledResult<unknown>} result @returns {boolean} Whether there may be more objects than the answer has. */
const isMissing = (result) =>
  result.status === "rejected" && !(result.reason instanceof Problem && result.reason.status === 403);

/**
 * @template T
 * @param {PromiseSettledResult<T>} result
 * @returns {T | null} The value; null if it could not be read, or if the reader may not see it.
 */
const valueOf = (result) => (result.status === "fulfilled" ? result.value : null);

/**
 * @param {Entry["kind"]} kind
 * @param {string} id
 * @param {{label?: string, hint?: string, more?: string | null}} [options]
 * @returns {Entry}
 */
export function entry(kind, id, { label = id, hint = "", more = "" } = {}) {
  return {
    kind,
    id,
    label: visible(label),
    ...(hint && { hint: visible(hint) }),
    text: [label, id, more].filter(Boolean).join("\n").toLowerCase(),
  };
}

/**
 * @param {Entry} one
 * @param {string} wanted In lower case.
 * @returns {number} How well the object fits. 0: its label or ID is `wanted`. 1: its label begins with it. 2: another
 *   part of its text contains it. Infinity: the object does not fit.
 */
export function fitOf(one, wanted) {
  const at = one.text.indexOf(wanted);
  if (at < 0) return Infinity;
  const label = one.label.toLowerCase();
  if (label === wanted || one.id.toLowerCase() === wanted) return 0;
  return label.startsWith(wanted) ? 1 : 2;
}

/**
 * @param {Entry[]} entries
 * @param {string} text The typed text.
 * @param {number} most Maximum number of objects of each kind.
 * @returns {Entry[]} The objects that fit, the best first.
 */
export function search(entries, text, most) {
  const wanted = text.toLowerCase();
  /** @type {Map<string, number>} */
  const counts = new Map();
  return entries
    .map((one) => ({ one, fit: fitOf(one, wanted) }))
    .filter(({ fit }) => fit < Infinity)
    .sort((a, b) => a.fit - b.fit)
    .map(({ one }) => one)
    .filter((one) => {
      const count = (counts.get(one.kind) ?? 0) + 1;
      counts.set(one.kind, count);
      return count <= most;
    });
}
