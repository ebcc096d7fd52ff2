/**
 * The one event stream of this page (GET /api/stream). Every event has the current state, so a missed event does no
 * harm: the next connection sends the state again. The stream ends while the tab is hidden, and reconnects by itself
 * after a master has died.
 */
import { useEffect, useState } from "./lib.js";
import { Problem, call, urlOf } from "./api.js";
import * as fresh from "./freshness.js";

/** @typedef {import("../../answers").Schemas} Schemas */
/** @typedef {"connecting" | "live" | "lost" | "paused" | "off"} LiveStatus */
/** @typedef {"workers" | "masters" | "constraints" | "definitions" | "events" | "batches" | "settings"} Sign An event that only says that something changed. */
/** @typedef {{stats: Schemas["Stats"], jobs: {counts: Record<string, number>}, action: Schemas["JobActionView"]} & Record<Sign, object>} LiveData */
/** @typedef {keyof LiveData} LiveEvent */
/** @typedef {LiveData & {status: LiveStatus, resumed: null}} Told `status`: the state of the connection. `resumed`: the connection came back. */

/** @type {LiveEvent[]} */
const EVENTS = [
  "stats",
  "jobs",
  "workers",
  "masters",
  "constraints",
  "definitions",
  "events",
  "batches",
  "settings",
  "action",
];
const HIDDEN_GRACE_MS = 3000;
/** How long to wait for the state that a stream sends right after it is opened. */
const FIRST_WORD_MS = 2500;
const RETRY_MS = [500, 1000, 2000, 4000];
/** How often the master sends `alive`, even if it sends other events. */
const PING_MS = 15_000;
/**
 * A stream that is silent for this long counts as dead even if its connection is open. The time allows for one lost
 * `alive` and a late one.
 */
const SILENCE_MS = 2 * PING_MS + 5_000;

/** @type {Map<keyof Told, Set<(data: never) => void>>} The listeners by event; each gets the data of its event. */
const listeners = new Map();
/** @type {Partial<LiveData>} */
let latest = {};
/** @type {EventSource | null} */
let source = null;
/** @type {LiveStatus} */
let status = "off";
let failures = 0;
/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer;
/** @type {ReturnType<typeof setTimeout> | undefined} */
let silence;
let isStarted = false;
/** Whether the stream was stopped, so that the page shows old data when it starts again. */
let wasStopped = false;

/** Start the stream. It goes on until `stop`. */
export function start() {
  if (isStarted) return;
  isStarted = true;
  failures = 0;
  connect();
}

/** End the stream, for a logout. */
export function stop() {
  isStarted = false;
  wasStopped = true;
  close();
  latest = {};
  fresh.forget();
  setStatus("off");
}

/** @returns {LiveStatus} */
export const liveStatus = () => status;

/**
 * @template {keyof Told} Event
 * @param {Event} event
 * @param {(data: Told[Event]) => void} listener
 * @returns {() => void} Stops listening.
 */
export function listen(event, listener) {
  const all = listeners.get(event) ?? new Set();
  listeners.set(event, all.add(listener));
  return () => void all.delete(listener);
}

/** @returns {LiveStatus} */
export function useLiveStatus() {
  const [value, setValue] = useState(status);
  useEffect(() => listen("status", setValue), []);
  return value;
}

/**
 * Return the newest data of `event`, or null before the first event.
 * @template {LiveEvent} Event
 * @param {Event} event
 * @returns {LiveData[Event] | null}
 */
export function useLatest(event) {
  const [value, setValue] = useState(/** @type {LiveData[Event] | null} */ (latest[event] ?? null));
  useEffect(() => listen(event, (data) => setValue(() => data)), [event]);
  return value;
}

/**
 * Return the newest data of `event`. If the stream does not send them soon, return the result of `load`.
 * @template {LiveEvent} Event
 * @param {Event} event
 * @param {() => Promise<LiveData[Event]>} load
 * @returns {Promise<LiveData[Event]>}
 */
export function pushedOr(event, load) {
  const known = latest[event];
  if (known !== undefined) return Promise.resolve(known);
  return new Promise((resolve, reject) => {
    const end = listen(event, (data) => {
      clearTimeout(late);
      end();
      resolve(data);
    });
    const late = setTimeout(() => {
      end();
      load().then(resolve, reject);
    }, FIRST_WORD_MS);
  });
}

function connect() {
  close();
  if (!isStarted || document.hidden) return;
  if (status !== "lost") setStatus("connecting");
  const opened = new EventSource(urlOf("api/stream"));
  source = opened;
  heard(opened);
  opened.onopen = () => {
    heard(opened);
    const wasLost = status === "lost" || status === "paused" || wasStopped;
    wasStopped = false;
    failures = 0;
    fresh.opened();
    setStatus("live");
    if (wasLost) tell("resumed", null);
  };
  opened.onerror = () => broke(opened);
  opened.addEventListener("alive", () => heard(opened));
  opened.addEventListener("freshness", (message) => {
    heard(opened);
    const wasOld = fresh.freshness().isOld;
    fresh.told(JSON.parse(/** @type {MessageEvent} */ (message).data));
    // The store is back: repeat the loads that failed without it, because no event announces their data.
    if (wasOld && !fresh.freshness().isOld) tell("resumed", null);
  });
  for (const event of EVENTS) {
    opened.addEventListener(event, (message) => {
      heard(opened);
      let data = null;
      try {
        data = JSON.parse(/** @type {MessageEvent} */ (message).data);
      } catch {
        return;
      }
      latest = { ...latest, [event]: data };
      tell(event, data);
    });
  }
}

/** @param {EventSource} stream */
function heard(stream) {
  if (source !== stream) return;
  clearTimeout(silence);
  silence = setTimeout(() => broke(stream), SILENCE_MS);
}

/** @param {EventSource} stream */
function broke(stream) {
  if (source !== stream) return;
  close();
  failures += 1;
  if (failures > 1 || status === "live") setStatus("lost");
  // EventSource does not tell why it failed. A call of the API tells it, and opens the login if a login is needed.
  if (failures >= 2) call("GET", "api/stats").then(() => fresh.toldByAnswer(null), tellFault);
  timer = setTimeout(connect, RETRY_MS[Math.min(failures, RETRY_MS.length) - 1]);
}

/** @param {unknown} error The error of a call. It may be the answer of a master whose store does not answer. */
function tellFault(error) {
  const isOfStore = error instanceof Problem && error.code.startsWith("store_");
  fresh.toldByAnswer(isOfStore ? { code: error.code, detail: error.detail } : null);
}

function close() {
  fresh.closed();
  clearTimeout(timer);
  clearTimeout(silence);
  source?.close();
  source = null;
}

/** @param {LiveStatus} value */
function setStatus(value) {
  if (status === value) return;
  status = value;
  tell("status", value);
}

/**
 * @template {keyof Told} Event
 * @param {Event} event
 * @param {Told[Event]} data
 */
function tell(event, data) {
  const all = /** @type {Set<(data: Told[Event]) => void> | undefined} */ (listeners.get(event));
  for (const listener of [...(all ?? [])]) listener(data);
}

document.addEventListener("visibilitychange", () => {
  if (!isStarted) return;
  clearTimeout(timer);
  if (document.hidden) {
    timer = setTimeout(() => {
      close();
      setStatus("paused");
    }, HIDDEN_GRACE_MS);
  } else if (source === null) {
    failures = 0;
    connect();
  }
});
