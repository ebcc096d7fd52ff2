/** Helpers of both pictures of a flow. */
import { t } from "../core/i18n.js";
import { useRef } from "../core/lib.js";
import { visible } from "../core/text.js";

/** @typedef {import("../../answers").Schemas["FlowView"]} FlowView */
/** @typedef {import("../../answers").Schemas["FlowJob"]} FlowJob */

/**
 * The content of a picture. `flow`: its shape, which stays while somebody looks at it. `newest`: its jobs as they are now, by
 * ID. `current`: the ID of the job whose page this is. `failure`: the ID of the failure that is explained above. `tools`: what stands at the top of each
 * picture.
 * @typedef {{flow: FlowView, newest: Map<string, FlowJob>, current: string, failure: string, tools: import("../core/lib.js").Node}} Drawn
 */

/** @param {FlowJob} job @returns {string} Its name, and what distinguishes it from others of that name. */
export const titleOf = (job) =>
  job.name === null ? t("flow.gone") : visible([job.name, job.label].filter(Boolean).join(" "));

/**
 * @param {FlowView} flow
 * @param {Map<string, FlowJob>} newest
 * @returns {Set<string>} The IDs of the jobs at which the flow broke, and of those that were skipped because of them.
 */
export function brokenIn(flow, newest) {
  const skipped = flow.jobs
    .map((job) => newest.get(job.id) ?? job)
    .filter((job) => job.state === "skipped" && job.cause === "dependency");
  return new Set([...flow.failures, ...skipped.map((job) => job.id)]);
}

/**
 * Keep the nodes whose facts are the same, so that moving the focus among 500 jobs draws two of them.
 * @returns {<T>(key: string, facts: unknown[], make: () => T) => T}
 */
export function useKeptNodes() {
  const kept = useRef(/** @type {Map<string, {facts: unknown[], node: unknown}>} */ (new Map()));
  return (key, facts, make) => {
    const old = kept.current.get(key);
    if (old && old.facts.every((fact, place) => fact === facts[place]))
      return /** @type {ReturnType<typeof make>} */ (old.node);
    const node = make();
    kept.current.set(key, { facts, node });
    return node;
  };
}
