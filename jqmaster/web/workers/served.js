/** The job names that live workers serve. Jobs of other names wait until a worker for them registers. */
import { get } from "../core/api.js";
import { useResource } from "../core/resource.js";

/** @typedef {import("../../answers").Schemas["WorkerView"]} Worker */

/** @param {Worker[]} workers @returns {Set<string>} */
const servedBy = (workers) =>
  new Set(
    workers
      .filter((worker) => worker.state === "fresh" || worker.state === "draining")
      .flatMap((worker) => worker.names),
  );

/** @returns {Set<string> | null} Null: not known yet. */
export function useServed() {
  const { data } = useResource((signal) => get("api/workers", {}, signal), [], {
    events: ["workers"],
    leastMs: 5_000,
    everyMs: 30_000,
  });
  return data && servedBy(data.workers);
}
