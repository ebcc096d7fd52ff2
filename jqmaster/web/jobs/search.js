/** Finds a page of jobs. If a filter selects few jobs, the search continues over several calls, shows its progress, and can be stopped. */
import { useEffect, useRef, useState } from "../core/lib.js";
import { get } from "../core/api.js";
import { useResource } from "../core/resource.js";

/** @typedef {import("../../answers").Schemas["ListedJob"]} ListedJob */
/** @typedef {import("../../answers").Schemas["JobCount"]} JobCount */

/** @typedef {{jobs: ListedJob[], lookedAt: number}} Progress */
/** @typedef {Record<string, string>} Filter A filter in the form of the API. */

export const PAGE = 50;
const COUNT_EVERY_MS = 10_000;

/**
 * @param {() => Filter} filter Returns the filter for a call of the API at this moment.
 * @param {{order: string, cursor: string | undefined, include: string, of: string}} list `of`: identifies the list;
 *   when it changes, the search begins again.
 */
export function useJobSearch(filter, { order, cursor, include, of }) {
  const [progress, setProgress] = useState(/** @type {Progress | null} */ (null));
  const [isLong, setLong] = useState(false);
  const isStopped = useRef(false);
  const page = useResource(
    async (signal) => {
      /** @type {ListedJob[]} */
      let jobs = [];
      let lookedAt = 0;
      let next = cursor;
      let calls = 0;
      isStopped.current = false;
      try {
        for (;;) {
          const found = await get(
            "api/jobs",
            { ...filter(), order, include, cursor: next, limit: PAGE - jobs.length },
            signal,
          );
          calls += 1;
          jobs = [...jobs, ...found.jobs];
          lookedAt += found.looked_at;
          next = found.next_cursor ?? undefined;
          if (isStopped.current) setLong(true);
          if (!next || jobs.length >= PAGE || isStopped.current)
            return { ...found, jobs, looked_at: lookedAt, is_stopped: isStopped.current, of };
          if (calls > 2) setLong(true);
          setProgress({ jobs, lookedAt });
        }
      } finally {
        if (!signal.aborted) setProgress(null);
      }
    },
    [of],
    // Do not repeat a long search automatically.
    { events: ["jobs"], leastMs: 1000, everyMs: 4000, isHeld: isLong },
  );
  useEffect(() => {
    setLong(false);
    setProgress(null);
  }, [of]);
  return {
    ...page,
    progress,
    isLong,
    stop: () => {
      isStopped.current = true;
    },
  };
}

/**
 * Return how many jobs a filter selects, by state. Return null without a filter, or before the first answer.
 * @param {(() => Filter) | null} filter
 * @param {string} of A text that identifies the counted jobs.
 * @returns {JobCount | null}
 */
export function useJobCount(filter, of) {
  const found = useResource(
    async (signal) => (filter ? { of, ...(await get("api/jobs/count", filter(), signal)) } : null),
    [of],
    { everyMs: COUNT_EVERY_MS },
  );
  const reload = useRef(found.reload);
  reload.current = found.reload;
  useEffect(() => {
    if (!filter) return undefined;
    const timer = setInterval(() => {
      if (!document.hidden) void reload.current();
    }, COUNT_EVERY_MS);
    return () => clearInterval(timer);
  }, [of]);
  const data = found.data;
  return data?.of === of ? data : null;
}
