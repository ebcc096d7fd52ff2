/** A flow, as a graph or as a waterfall, with its failures, its critical path and a retry. */
import { get, may, post } from "../core/api.js";
import { t } from "../core/i18n.js";
import { html, useMemo, useRef, useState } from "../core/lib.js";
import { usePref } from "../core/prefs.js";
import { href } from "../core/router.js";
import { admits } from "../core/states.js";
import { Button } from "../ui/controls.js";
import { attempt } from "../ui/dialogs.js";
import { Text } from "../ui/formats.js";
import { useKeys } from "../ui/keys.js";
import { NewRows, useHold } from "../ui/tables.js";
import { FlowGraph } from "./flow_graph.js";
import { loadLayout } from "./flow_layout.js";
import { titleOf } from "./flow_parts.js";
import { FlowWaterfall } from "./flow_waterfall.js";

/** @typedef {import("../../answers").Schemas["FlowView"]} FlowView */
/** @typedef {import("../../answers").Schemas["FlowJob"]} FlowJob */

/** Maximum number of jobs to request, because nobody could read a larger picture. */
const MAX_JOBS = 500;
const VIEWS = /** @type {const} */ (["graph", "waterfall"]);

/**
 * Load the flow at `path`, and the library that lays it out. Return null if no job waits for another.
 * @param {`api/jobs/${string}/flow` | `api/batches/${string}/flow`} path
 * @param {AbortSignal} signal
 * @returns {Promise<FlowView | null>}
 */
export async function loadFlow(path, signal) {
  const flow = await get(path, { limit: MAX_JOBS }, signal);
  if (!flow.jobs.some((job) => job.after.length > 0)) return null;
  await loadLayout();
  return flow;
}

/**
 * @param {{flow: FlowView, current?: string, session: import("../core/api.js").Session, onChange: () => unknown}} props
 *   `current`: the ID of the job whose page this is. `onChange`: reads the flow again.
 */
export function Flow({ flow, current = "", session, onChange }) {
  const hold = useHold();
  const [view, setView] = usePref("flow", "graph");
  const [place, setPlace] = useState(0);
  const [, redraw] = useState(0);
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const shown = useRef(flow);
  // Keep the shape of the picture while somebody looks at it. Only the states in it change.
  if (!hold.isHeld) shown.current = flow;
  const newest = useMemo(() => new Map(flow.jobs.map((job) => [job.id, job])), [flow]);
  const known = new Set(shown.current.jobs.map((job) => job.id));
  const failures = flow.failures.filter((id) => known.has(id));
  const at = Math.min(place, failures.length - 1);
  const reveal = (/** @type {string} */ id, /** @type {boolean} */ hasFocus) => {
    const node = box.current?.querySelector(`[data-key="${CSS.escape(id)}"]`);
    if (!(node instanceof HTMLElement)) return;
    if (hasFocus) node.focus({ preventScroll: true });
    node.scrollIntoView({ block: "center", inline: "center" });
  };
  const step = (/** @type {1 | -1} */ way, hasFocus = false) => {
    const count = failures.length;
    if (!count) return;
    const next = (at + way + count) % count;
    setPlace(next);
    reveal(failures[next] ?? "", hasFocus);
  };
  useKeys({ n: () => step(1, true), N: () => step(-1, true) });
  const failure = newest.get(failures[at] ?? "");
  const counted = `${t("flow.jobs", { count: shown.current.jobs.length })}${flow.is_complete ? "" : ` · ${t("flow.incomplete")}`}`;
  const tools = html`<p class="muted small">${counted}</p>
    <span class="row" role="group" aria-label=${t("flow.view")}>
      ${VIEWS.map(
        (one) =>
          html`<${Button} key=${one} class="small" aria-pressed=${String(view === one)} onClick=${() => setView(one)}>${t(`flow.view.${one}`)}<//>`,
      )}
    </span>`;
  const drawn = { flow: shown.current, newest, current, failure: failure?.id ?? "", tools };
  return html`<div class=${`flow ${failures.length ? "has-failure" : ""}`} ref=${box} ...${hold.bind}>
    ${failure && html`<${Failure} job=${failure} place=${at} count=${failures.length} session=${session} onStep=${step} onChange=${onChange} />`}
    <${NewRows} count=${flow.jobs.filter((job) => !known.has(job.id)).length} onShow=${() => {
      shown.current = flow;
      redraw((/** @type {number} */ n) => n + 1);
    }} />
    ${view === "waterfall" ? html`<${FlowWaterfall} ...${drawn} />` : html`<${FlowGraph} ...${drawn} />`}</div>`;
}

/**
 * One job at which the flow broke, with the actions that may repair the flow.
 * @param {{job: FlowJob, place: number, count: number, session: import("../core/api.js").Session, onStep: (way: 1 |
 *   -1) => void, onChange: () => unknown}} props
 *   `place`: the number of the job among these jobs, from 0.
 */
function Failure({ job, place, count, session, onStep, onChange }) {
  const retry = () =>
    attempt(
      () => post(`api/jobs/${encodeURIComponent(job.id)}/retry`, { attempt: job.attempt }),
      t("flow.retried", { name: titleOf(job) }),
    ).then(onChange);
  const reason = job.error ?? (job.cause ? t(`cause.${job.cause}`) : "");
  return html`<section class="flow-failure" aria-label=${t("flow.failures")}>
      <p>
        <b>${t("flow.failure", { place: place + 1, count })}</b> <a href=${href("job", { id: job.id })}>
          ${titleOf(job)}
        </a>
        ${reason && html` <span class="flow-reason"><${Text} value=${reason} max=${300} /></span>`}
      </p>
      <div class="row">
        ${
          count > 1 &&
          html`<${Button} class="small" onClick=${() => onStep(-1)}>${t("flow.failure.before")}<//>`
        }
        <${Button} class="small" title=${t("flow.failure.key")} onClick=${() => onStep(1)}>
          ${t(count > 1 ? "flow.failure.next" : "flow.failure.show")} <kbd>n</kbd>
        <//>
        ${
          may(session, "operate") &&
          job.state !== null &&
          admits(job.state, "retry") &&
          html`<${Button} class="small" kind="primary" onClick=${retry}>${t("flow.retry")}<//>`
        }
      </div>
    </section>`;
}
