/** Counts the failures with a job that is still failed. People have retried or deleted the jobs of other failures since. */
import { Problem, get } from "../core/api.js";
import { t } from "../core/i18n.js";
import { html } from "../core/lib.js";
import { useResource } from "../core/resource.js";
import { href } from "../core/router.js";

/** @typedef {import("../../answers").Schemas["FailureGroup"]} FailureGroup */
/** @typedef {{count: number, is_exact: boolean}} Still `is_exact`: false if there may be more. */

// Maximum number of groups to count. Each group takes a request that may read many jobs.
const MAX_ASKED = 20;
const ENOUGH_MS = 2_000;
const AGAIN_MS = 15_000;

/**
 * @param {FailureGroup[]} groups
 * @param {number} done A number that changes when the reader has acted on the groups.
 * @returns {{still: Map<string, Still>, reload: () => Promise<void>}} `still`: the counts of the first groups, by ID of
 *   the group.
 */
export function useStillFailed(groups, done) {
  const asked = groups.slice(0, MAX_ASKED);
  const { data, reload } = useResource(
    async (signal) => {
      /** @type {Map<string, Still>} */
      const found = new Map();
      const beganMs = Date.now();
      for (const { id, name } of asked) {
        if (Date.now() - beganMs > ENOUGH_MS) break;
        const still = await stillOf({ name, failure_group: id }, signal);
        if (still) found.set(id, still);
      }
      return found;
    },
    [asked.map((group) => `${group.id} ${group.count}`).join(), done],
    { events: ["jobs"], leastMs: AGAIN_MS, everyMs: AGAIN_MS },
  );
  return { still: data ?? new Map(), reload };
}

/** @param {{name: string, failed: number}} props How many jobs of one name are still failed. Shown if any job failed. */
export function StillFailedOf({ name, failed }) {
  const { data } = useResource(
    async (signal) => (failed > 0 ? stillOf({ name }, signal) : null),
    [name, failed],
    { events: ["jobs"], leastMs: AGAIN_MS, everyMs: AGAIN_MS },
  );
  return (
    data && html`<a class="tile-more" href=${href("jobs", { state: "failed", name })}>${stillText(data)}</a>`
  );
}

/** @param {Still} still */
export const stillText = ({ count, is_exact: isExact }) =>
  t(count === 0 ? "failures.still.none" : isExact ? "failures.still" : "failures.still.least", { count });

/**
 * @param {{name: string, failure_group?: string}} of
 * @param {AbortSignal} signal
 * @returns {Promise<Still | null>} Null: this reader has no right to count them.
 */
async function stillOf(of, signal) {
  try {
    return await get("api/jobs/count", { state: "failed", ...of }, signal);
  } catch (error) {
    if (error instanceof Problem && error.status === 403) return null;
    throw error;
  }
}
