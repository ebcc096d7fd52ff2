/** Loads data of the API that a component shows, and loads them again when they may have changed. */
import { Problem } from "./api.js";
import * as fresh from "./freshness.js";
import { useEffect, useRef, useState } from "./lib.js";
import { listen, liveStatus } from "./live.js";

/**
 * @typedef {{events?: import("./live.js").LiveEvent[], leastMs?: number, everyMs?: number, pollMs?: number, isHeld?: boolean}} Reading
 *   When data are loaded again. `isHeld`: do not load again automatically now.
 */
/**
 * @template T
 * @typedef {{data: T | null, problem: Problem | null, isLoading: boolean}} Loaded
 */

/**
 * Return the data from `load`. Load them again when one of `events` arrives and after the connection comes back, but at
 * most once in `leastMs`. Load nothing while the tab is hidden. Without a stream, load every `everyMs`. Repeat a failed
 * load every `everyMs`, too. `pollMs`: poll even with a stream, for data that change without an event, such as the time
 * when a worker was last heard.
 * @template T
 * @param {(signal: AbortSignal) => Promise<T>} load
 * @param {unknown[]} deps When one of these values changes, the old data are dropped and new ones are loaded at once.
 * @param {Reading} [options]
 * @returns {Loaded<T> & {isStale: boolean, reload: () => Promise<void>}}
 *   `isStale`: an event arrived while `isHeld` was set. `problem.shownAsOfMs` says how old the data are if they could
 *   not be loaded again.
 */
export function useResource(
  load,
  deps,
  { events = [], leastMs = 1000, everyMs = 5000, pollMs = 0, isHeld = false } = {},
) {
  const [state, setState] = useState(
    /** @type {Loaded<T>} */ ({ data: null, problem: null, isLoading: true }),
  );
  const [isStale, setStale] = useState(false);
  const held = useRef(isHeld);
  held.current = isHeld;
  const now = useRef(/** @type {() => Promise<void>} */ (async () => {}));
  const loader = useRef(load);
  loader.current = load;

  useEffect(() => {
    const age = ageOf(events.length > 0);
    const loads = loadsOf(loader, held, leastMs, age, setState, setStale);
    now.current = loads.run;
    setState((old) => ({ data: old.data, problem: null, isLoading: true }));
    void loads.run();
    const ends = events.map((event) => listen(event, loads.soon));
    ends.push(listen("resumed", loads.atOnce));
    const poll = setInterval(() => {
      const status = liveStatus();
      if (status !== "paused" && (pollMs || status !== "live" || age.hasFailed())) loads.soon();
    }, pollMs || everyMs);
    return () => {
      loads.end();
      clearInterval(poll);
      for (const end of ends) end();
    };
  }, deps);
  return { ...state, isStale, reload: () => now.current() };
}

/**
 * The age of the data of one resource.
 * @param {boolean} isTold Whether events report changes of the data.
 */
function ageOf(isTold) {
  // The time until which the data are known to be current: the time of their request, or later if no event has reported
  // a change since.
  /** @type {number | null} */
  let asOfMs = null;
  let isCurrent = false;
  let hasFailed = false;
  const self = {};
  return {
    hasFailed: () => hasFailed,
    asked: () => {
      if (isCurrent && asOfMs !== null) asOfMs = Math.max(asOfMs, fresh.streamAsOfMs() ?? 0);
      isCurrent = false;
    },
    /** @param {number} askedMs */
    loaded: (askedMs) => {
      asOfMs = askedMs;
      isCurrent = isTold;
      hasFailed = false;
      fresh.note(self, false);
    },
    /** @returns {number | null} How old the data are that stay. */
    failed: () => {
      hasFailed = true;
      fresh.note(self, asOfMs !== null);
      return asOfMs;
    },
    end: () => fresh.note(self, false),
  };
}

/**
 * The loads of one resource. A new load aborts the previous one. A load that an event causes waits until the previous
 * one has ended.
 * @template T
 * @param {{current: (signal: AbortSignal) => Promise<T>}} loader
 * @param {{current: boolean}} held
 * @param {number} leastMs
 * @param {ReturnType<typeof ageOf>} age
 * @param {(next: (old: Loaded<T>) => Loaded<T>) => void} setState
 * @param {(isStale: boolean) => void} setStale
 */
function loadsOf(loader, held, leastMs, age, setState, setStale) {
  let aborter = new AbortController();
  let isOver = false;
  let lastMs = 0;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let waiting;
  let isRunning = false;
  let isWanted = false;
  const dropWait = () => {
    clearTimeout(waiting);
    waiting = undefined;
  };
  const run = async () => {
    dropWait();
    aborter.abort();
    aborter = new AbortController();
    const { signal } = aborter;
    const askedMs = Date.now();
    lastMs = askedMs;
    isRunning = true;
    isWanted = false;
    age.asked();
    try {
      const data = await loader.current(signal);
      if (isOver || signal.aborted) return;
      age.loaded(askedMs);
      setStale(false);
      setState(() => ({ data, problem: null, isLoading: false }));
    } catch (error) {
      if (isOver || signal.aborted) return;
      if (!(error instanceof Problem)) throw error;
      error.shownAsOfMs = age.failed();
      setState((old) => ({ data: old.data, problem: error, isLoading: false }));
    } finally {
      if (!signal.aborted) {
        isRunning = false;
        if (isWanted) soon();
      }
    }
  };
  const soon = () => {
    if (document.hidden || isOver) return;
    if (held.current) return setStale(true);
    // Let a slow request finish: if each event aborted it, no answer would ever be shown.
    if (isRunning) isWanted = true;
    else waiting ??= setTimeout(runUnlessHeld, Math.max(0, lastMs + leastMs - Date.now()));
  };
  const runUnlessHeld = () => {
    waiting = undefined;
    if (held.current) setStale(true);
    else void run();
  };
  /** Load the data that could not be loaded while no master answered. */
  const atOnce = () => {
    lastMs = 0;
    dropWait();
    soon();
  };
  const end = () => {
    isOver = true;
    age.end();
    aborter.abort();
    clearTimeout(waiting);
  };
  return { run, soon, atOnce, end };
}
