/** The state of a worker, as lists and pages show it. */
import { html } from "../core/lib.js";
import { number, t, tOr } from "../core/i18n.js";
import { visible } from "../core/text.js";
import { Marks } from "./figures.js";
import { Bar } from "../ui/controls.js";
import { Badge } from "../ui/formats.js";

/** @typedef {import("../../answers").Schemas["WorkerView"]} WorkerView */

/** @type {Record<WorkerView["state"], import("../ui/formats.js").Kind> & Record<string, import("../ui/formats.js").Kind>} */
export const KINDS = { fresh: "ok", stale: "warn", draining: "info", detached: "bad" };
/** @type {Record<string, import("../ui/formats.js").Kind>} */
const BREAKERS = { closed: "ok", half_open: "warn", open: "bad" };
// How often to poll. No event announces that a worker was heard, or which jobs it runs.
export const POLL_MS = 2000;
// The states in the order of the list: workers in trouble come first.
export const ORDER = /** @type {const} */ (["stale", "detached", "draining", "fresh"]);

/** @param {{worker: WorkerView}} props */
export function WorkerState({ worker }) {
  return html`<${StateBadge} state=${worker.state} />
    ${
      worker.detached_by &&
      html` <span class="muted">${tOr(`workers.by.${worker.detached_by}`, visible(worker.detached_by))}</span>`
    }`;
}

/** @param {{state: WorkerView["state"]}} props */
const StateBadge = ({ state }) =>
  html`<${Badge} kind=${KINDS[state] ?? "off"}>${tOr(`worker.${state}`, visible(state))}<//>`;

/** @param {{worker: WorkerView}} props The state in a row. Each further fact is one word, with the full text in its title. */
export function RowState({ worker }) {
  const { detached_by: by, breaker } = worker;
  const isBroken = breaker === "open" || breaker === "half_open";
  return html`<${StateBadge} state=${worker.state} />
    ${
      by &&
      html` <span class="muted wide-only" title=${tOr(`workers.by.${by}`, visible(by))}>${tOr(`workers.by.${by}.short`, visible(by))}</span>`
    }
    ${
      isBroken &&
      worker.state !== "detached" &&
      html` <span title=${`${t("workers.breaker")}: ${t(`workers.breaker.${breaker}`)}`}>
          <${Badge} kind=${BREAKERS[/** @type {"open"} */ (breaker)]}>
            ${t(`workers.breaker.${breaker}.short`)}
          <//>
        </span>`
    }
    <span class="wide-only"><${Marks} figures=${worker.figures} /></span>`;
}

/** @param {{breaker: WorkerView["breaker"]}} props */
export function Breaker({ breaker }) {
  if (breaker === null) return html`<span class="muted" title=${t("workers.breaker.unknown")}>–</span>`;
  return html`<${Badge} kind=${BREAKERS[breaker] ?? "off"}>${tOr(`workers.breaker.${breaker}`, visible(breaker))}<//>`;
}

/** @param {{worker: {busy: number, max_jobs: number}}} props */
export function Slots({ worker }) {
  return html`<span class="slots">
      <span class="num">${number(worker.busy)} / ${number(worker.max_jobs)}</span> <${Bar}
        value=${worker.busy} of=${worker.max_jobs} label=${t("workers.slots")}
        kind=${worker.busy >= worker.max_jobs ? "warn" : "info"} />
    </span>`;
}

/** @param {WorkerView} worker */
export const nameOf = (worker) => `${worker.node_id || "–"}${worker.pid ? `:${worker.pid}` : ""}`;
