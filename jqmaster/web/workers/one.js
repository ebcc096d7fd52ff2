/** One worker: its facts, its figures, and the jobs that it runs. */
import { html, useState } from "../core/lib.js";
import { get, may, post } from "../core/api.js";
import { number, t, tOr } from "../core/i18n.js";
import { useResource } from "../core/resource.js";
import { href } from "../core/router.js";
import { visible } from "../core/text.js";
import { SlotsDialog } from "./slots.js";
import { FigureFacts } from "./figures.js";
import { Button, Empty, ErrorBox, Loading } from "../ui/controls.js";
import { ConfirmCount, attempt } from "../ui/dialogs.js";
import { Id, Num, Text, Time } from "../ui/formats.js";
import { Table } from "../ui/tables.js";
import { useTitle } from "../ui/titles.js";
import { Breaker, POLL_MS, Slots, WorkerState, nameOf } from "./states.js";

/** @typedef {import("../../answers").Schemas["HeldJob"]} HeldJob */
/** @typedef {import("../../answers").Schemas["WorkerDetail"]} WorkerDetail */

/** @param {{id: string, session: import("../core/api.js").Session}} props */
export function One({ id, session }) {
  const path = /** @type {const} */ (`api/workers/${encodeURIComponent(id)}`);
  const {
    data: worker,
    problem,
    reload,
  } = useResource((signal) => get(path, {}, signal), [id], {
    events: ["workers", "jobs"],
    leastMs: 1000,
    pollMs: POLL_MS,
  });
  const [asked, setAsked] = useState(/** @type {"slots" | "detach" | null} */ (null));
  useTitle(worker && `${nameOf(worker)} · ${t("workers.one")}`);
  const back = html`<p class="crumbs"><a href=${href("workers")}>${t("nav.workers")}</a></p>`;
  if (worker === null) {
    return html`${back}<h1>${t("workers.one")}</h1>
      ${
        problem?.status === 404
          ? html`<${Empty} title=${t("workers.unknown")}>${t("workers.unknown.text")}<//>`
          : html`<${ErrorBox} problem=${problem} onRetry=${reload} />`
      }
      ${!problem && html`<${Loading} />`}`;
  }
  const mayOperate = may(session, "operate");
  const act = async (/** @type {"drain" | "resume" | "detach"} */ what) => {
    await post(`${path}/${what}`);
    await reload();
  };
  return html`${back}
    <div class="page-head job-head">
      <h1>
        <${Text} value=${worker.node_id || t("workers.one")} max=${60} />
        ${worker.pid && html` <span class="muted num">${t("master.pid", { pid: String(worker.pid) })}</span>`}
      </h1>
      <${WorkerState} worker=${worker} />
    </div>
    <p class="job-id"><code>${visible(worker.id)}</code></p>
    <${ErrorBox} problem=${problem} />
    ${mayOperate && html`<${Actions} worker=${worker} act=${act} onAsk=${setAsked} />`}
    <div class="job-grid">
      <${Facts} worker=${worker} />
      <${FigureFacts} figures=${worker.figures} />
      <section class="card">
        <h2>${t("nav.names")} <span class="muted num">${number(worker.names.length)}</span></h2>
        <p>
          ${worker.names
            .slice(0, 100)
            .map(
              (/** @type {string} */ name) =>
                html`<a class="chip" href=${href("jobs", { name })}><${Text} value=${name} max=${80} /></a> `,
            )}
        </p>
      </section>
    </div>
    <section class="after" aria-labelledby="held">
      <h2 id="held">${t("workers.jobs")} <span class="muted num">${number(worker.jobs.length)}</span></h2>
      <${Table}
        caption=${t("workers.jobs")} rows=${worker.jobs} rowKey=${(/** @type {HeldJob} */ job) => job.job_id}
        empty=${html`<${Empty} title=${t("workers.idle")} />`}
        columns=${JOB_COLUMNS.map((column) => ({ ...column, label: t(column.label) }))} />
    </section>
    ${
      asked === "slots" &&
      html`<${SlotsDialog} worker=${worker} what=${nameOf(worker)} onClose=${() => setAsked(null)} onDone=${reload} />`
    }
    ${
      asked === "detach" &&
      html`<${Detach} worker=${worker} onConfirm=${() => act("detach")} onClose=${() => setAsked(null)} />`
    }`;
}

/**
 * @param {{worker: WorkerDetail, act: (what: "drain" | "resume") => Promise<void>, onAsk: (dialog: "slots" | "detach") => void}} props
 */
function Actions({ worker, act, onAsk }) {
  return html`<div class="row actions" role="group" aria-label=${t("job.actions")}>
        ${
          worker.state === "draining"
            ? html`<${Button} kind="primary" onClick=${() => attempt(() => act("resume"), t("workers.resumed"))}>${t("workers.resume")}<//>`
            : worker.state !== "detached" &&
              html`<${Button} onClick=${() => attempt(() => act("drain"), t("workers.drained"))}>${t("workers.drain")}<//>`
        }
        ${worker.state !== "detached" && html`<${Button} opensDialog onClick=${() => onAsk("slots")}>${t("workers.slots.change")}<//>`}
        ${worker.state !== "detached" && html`<${Button} opensDialog kind="danger" onClick=${() => onAsk("detach")}>${t("workers.detach")}<//>`}</div>`;
}

/** @param {{worker: WorkerDetail}} props */
function Facts({ worker }) {
  return html`<section class="card">
        <h2>${t("job.facts")}</h2>
        <dl class="facts">
          <dt>${t("workers.slots")}</dt>
          <dd>
            <${Slots} worker=${worker} />
            ${
              worker.own_max_jobs !== undefined &&
              worker.own_max_jobs !== worker.max_jobs &&
              html` <span class="muted">${t("workers.slots.own", { count: worker.own_max_jobs })}</span>`
            }
          </dd>
          <dt>${t("workers.seen")}</dt><dd><${Time} at=${worker.last_seen_at} /></dd>
          <dt>${t("workers.registered")}</dt><dd><${Time} at=${worker.registered_at} /></dd>
          <dt>${t("workers.breaker")}</dt><dd><${Breaker} breaker=${worker.breaker} /></dd>
          <dt>${t("workers.role")}</dt><dd>${tOr(`workers.role.${worker.role}`, visible(worker.role))}</dd>
          <dt>${t("workers.address")}</dt><dd>${worker.url ? html`<${Text} value=${worker.url} />` : "–"}</dd>
          <dt>${t("workers.host")}</dt>
          <dd>
            <${Text} value=${worker.node_id || "–"} /> ${
              worker.pid > 0 &&
              html`<span class="muted">${t("master.pid", { pid: String(worker.pid) })}</span>`
            }
          </dd>
          <dt>${t("workers.version")}</dt><dd><${Text} value=${worker.version || "–"} /></dd>
          ${Object.entries(worker.labels).map(
            ([key, value]) =>
              html`<dt><${Text} value=${key} max=${64} /></dt><dd><${Text} value=${value} max=${200} /></dd>`,
          )}
        </dl>
      </section>`;
}

/** @type {(import("../ui/tables.js").Column<HeldJob> & {label: string})[]} */
const JOB_COLUMNS = [
  {
    key: "name",
    label: "job.name",
    render: (job) =>
      html`<a href=${href("job", { id: job.job_id })}><${Text} value=${job.name} max=${80} /></a>`,
  },
  {
    key: "id",
    label: "job.id",
    render: (job) => html`<${Id} id=${job.job_id} href=${href("job", { id: job.job_id })} />`,
  },
  {
    key: "attempt",
    label: "job.attempt",
    align: "end",
    priority: 2,
    render: (job) => html`<${Num} value=${job.attempt} />`,
  },
  {
    key: "since",
    label: "job.since",
    align: "end",
    render: (job) => html`<${Time} at=${job.started_at} />`,
  },
];

/** @param {{worker: WorkerDetail, onConfirm: () => Promise<void>, onClose: () => void}} props */
function Detach({ worker, onConfirm, onClose }) {
  return html`<${ConfirmCount}
      title=${t("workers.detach.title")} count=${worker.jobs.length} isAlways verb=${t("workers.detach")}
      onConfirm=${onConfirm} onClose=${onClose}>
      <p>${t("workers.detach.text")}</p>
    <//>`;
}
