/** Helpers of the two pictures of a flow: the graph and the waterfall. */
import { t } from "../core/i18n.js";
import { html, useRef } from "../core/lib.js";
import { href } from "../core/router.js";
import { isIn } from "../core/states.js";
import { visible } from "../core/text.js";
import { Id, Text } from "../ui/formats.js";

/** @typedef {import("../../answers").Schemas["FlowView"]} FlowView */
/** @typedef {import("../../answers").Schemas["FlowJob"]} FlowJob */

/**
 * The content of a picture. `flow`: the flow that shapes the picture; it stays while somebody looks at the picture.
 * `newest`: the jobs of the flow as they are now, by ID. `current`: the ID of the job whose page this is. `failure`:
 * the ID of the failure that is explained above. `tools`: the controls at the top of each picture.
 * @typedef {{flow: FlowView, newest: Map<string, FlowJob>, current: string, failure: string, tools: import("../core/lib.js").Node}} Drawn
 */

/** @param {FlowJob} job @returns {string} The name of the job, and the text that distinguishes it from other jobs of this name. */
export const titleOf = (job) =>
  job.name === null ? t("flow.gone") : visible([job.name, job.label].filter(Boolean).join(" "));

/** @param {FlowView | null} flow @param {string} id @returns {FlowJob | undefined} */
export const jobIn = (flow, id) => flow?.jobs.find((job) => job.id === id);

/**
 * @param {FlowView | null} flow
 * @param {string} id The ID of a job that waits for other jobs.
 * @returns {FlowJob | null} The predecessor, direct or indirect, that does not wait for another unfinished job. All
 *   jobs behind it wait until it ends. Null: the flow has no such job.
 */
export function firstCauseOf(flow, id) {
  const byId = new Map(flow?.jobs.map((job) => [job.id, job]));
  const passed = new Set([id]);
  let at = byId.get(id);
  while (at) {
    const next = at.after
      .map((one) => byId.get(one))
      .find((job) => job && job.state !== null && !isIn(job.state, "finished") && !passed.has(job.id));
    if (!next) return at.id === id ? null : at;
    passed.add(next.id);
    at = next;
  }
  return null;
}

/** @param {{id: string, flow: FlowView | null}} props The name of a job (if it is known) and the end of its ID. */
export function JobLink({ id, flow }) {
  const job = jobIn(flow, id);
  const to = href("job", { id });
  return job && job.name !== null
    ? html`<a href=${to}><${Text} value=${titleOf(job)} max=${80} /></a> <${Id} id=${id} />`
    : html`<${Id} id=${id} href=${to} />`;
}

/**
 * @param {FlowView} flow
 * @param {Map<string, FlowJob>} newest
 * @returns {Set<string>} The IDs of the jobs at which the flow broke, and of the jobs that were skipped because of
 *   them.
 */
export function brokenIn(flow, newest) {
  const skipped = flow.jobs
    .map((job) => newest.get(job.id) ?? job)
    .filter((job) => job.state === "skipped" && job.cause === "dependency");
  return new Set([...flow.failures, ...skipped.map((job) => job.id)]);
}

/**
 * Reuse the nodes that have not changed, so that moving the focus among 500 jobs redraws only two of them.
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
