/** The jobs before and after a job, and the flow that it is part of. */
import { html } from "../core/lib.js";
import { t } from "../core/i18n.js";
import { Flow, loadFlow } from "./flow.js";
import { JobLink } from "./flow_parts.js";
import { useResource } from "../core/resource.js";
import { ErrorBox } from "../ui/controls.js";
import { Badge, State } from "../ui/formats.js";

/** @typedef {import("../../answers").Schemas["PredecessorView"]} PredecessorView */
/** @typedef {import("../../answers").Schemas["LinkedJob"]} LinkedJob */
/** @typedef {import("../../answers").Schemas["FlowView"]} FlowView */
/** @typedef {import("../../answers").Schemas["JobView"]} JobView */
/** @typedef {`api/jobs/${string}`} JobPath */

const REVIVED = /** @type {const} */ (["jobs", "held", "gone"]);

/**
 * @param {JobView | null} job
 * @param {JobPath} path
 *   The jobs that are connected with it; `data` is `null` without such jobs.
 */
export const useFlow = (job, path) => {
  const isLinked = Boolean(job && (job.after || (job.dependents_count ?? 0) > 0));
  return useResource(
    (signal) => (isLinked ? loadFlow(`${path}/flow`, signal) : Promise.resolve(null)),
    [job?.id, isLinked],
    { events: ["jobs"], leastMs: 2000, everyMs: 5000 },
  );
};

/** @param {{job: JobView, flow: FlowView | null}} props The predecessors and the dependents of the job. */
export function Order({ job, flow }) {
  const { dependents_count: dependents = 0, revives } = job;
  if (!job.after && dependents === 0) return null;
  return html`<section class="card order" aria-labelledby="order">
      <h2 id="order">${t("job.order")}</h2>
      ${
        job.after &&
        html`<p>${t(`job.after.${job.after.when}`, { count: job.after.jobs.length })}</p>
          <${LinkedJobs} jobs=${job.after.jobs} count=${job.after.jobs.length} flow=${flow} />`
      }
      ${
        dependents > 0 &&
        html`<p>${t("job.dependents", { count: dependents })}</p><${LinkedJobs} jobs=${job.dependents ?? []} count=${dependents} flow=${flow} />`
      }
      ${REVIVED.filter((what) => (revives?.[what] ?? 0) > 0).map(
        (what) =>
          html`<p key=${what} class=${what === "gone" ? "warning" : "muted"}>${t(`job.revives.${what}`, { count: revives?.[what] ?? 0 })}</p>`,
      )}
    </section>`;
}

/**
 * The graph of all jobs that are connected with the job. It is the last part of the page, so nothing moves when it
 * appears.
 * @param {{job: JobView, found: ReturnType<typeof useFlow>, session: import("../core/api.js").Session}} props
 */
export function FlowCard({ job, found, session }) {
  if (!found.data && !found.problem) return null;
  return html`<section class="card after" aria-labelledby="flow">
      <h2 id="flow">${t("flow")}</h2><${ErrorBox} problem=${found.problem} onRetry=${found.reload} />
      ${
        found.data &&
        html`<${Flow} flow=${found.data} current=${job.id} session=${session} onChange=${found.reload} />`
      }
    </section>`;
}

/** How many linked jobs are shown. Further jobs are folded away. */
const LINKED_AT_ONCE = 8;

/** @param {{jobs: (LinkedJob | PredecessorView)[], count: number, flow: FlowView | null}} props `count`: of all jobs; `jobs` may be only the first of them. */
function LinkedJobs({ jobs, count, flow }) {
  const item = (/** @type {LinkedJob | PredecessorView} */ one) =>
    html`<li key=${one.id}>
        <${JobLink} id=${one.id} flow=${flow} /> ${one.state && html`<${State} state=${one.state} />`}
        ${"pending" in one && one.pending && html` <${Badge} kind="info">${t("job.awaited")}<//>`}
      </li>`;
  const folded = jobs.slice(LINKED_AT_ONCE);
  return html`<ul class="plain">${jobs.slice(0, LINKED_AT_ONCE).map(item)}</ul>
    ${
      folded.length > 0 &&
      html`<details>
          <summary>${t("job.linked.more", { count: count - LINKED_AT_ONCE })}</summary>
          <ul class="plain">${folded.map(item)}</ul>
          ${
            count > jobs.length &&
            html`<p class="muted">${t("job.linked.not_shown", { count: count - jobs.length })}</p>`
          }
        </details>`
    }`;
}
