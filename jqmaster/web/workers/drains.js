/**
 * Drains many workers at once. The page counts the workers first, and shows the progress until no job runs on them. The
 * drain can be undone.
 */
import { html, useEffect, useState } from "../core/lib.js";
import { Problem, get, post } from "../core/api.js";
import { t } from "../core/i18n.js";
import { useResource } from "../core/resource.js";
import { Bar, Button, ErrorBox } from "../ui/controls.js";
import { ConfirmCount, Dialog, attempt, toast } from "../ui/dialogs.js";
import { Badge, Duration, Text, nowMs, useTick } from "../ui/formats.js";

/** @typedef {import("../../answers").Schemas["WorkerView"]} Worker */
/** @typedef {import("../../answers").Schemas["WorkerSetAnswer"]} WorkerSetAnswer */

/** @typedef {{worker_ids?: string[], node_id?: string, version?: string, label?: {name: string, value: string}}} Selection */

// If more workers than this are draining, do not look up the job that runs longest.
const MAX_ASKED = 10;
const POLL_MS = 2000;

/**
 * @param {Selection} selection
 * @param {() => unknown} onDone
 */
const resumeAll = (selection, onDone) =>
  attempt(async () => {
    const answer = await post("api/workers/resume", selection);
    toast(t("workers.resumed.set", { count: answer.count }));
  }, "").then(onDone);

/**
 * The dialog that counts the workers that would drain and their jobs, asks for confirmation, and begins.
 * @param {{selection: Selection, what: string, onClose: () => void, onDone: () => unknown}} props `what`: the words for the set.
 */
export function DrainDialog({ selection, what, onClose, onDone }) {
  const [dry, setDry] = useState(/** @type {WorkerSetAnswer | null} */ (null));
  const [problem, setProblem] = useState(/** @type {Problem | null} */ (null));
  useEffect(() => {
    let isOver = false;
    post("api/workers/drain", { ...selection, dry_run: true }).then(
      (answer) => {
        if (!isOver) setDry(answer);
      },
      (error) => {
        if (!isOver) setProblem(error instanceof Problem ? error : new Problem(0, {}));
      },
    );
    return () => {
      isOver = true;
    };
  }, []);
  const title = t("workers.drain.title");
  if (!dry)
    return html`<${Dialog} title=${title} onClose=${onClose}>
        <${ErrorBox} problem=${problem} />${!problem && html`<p role="status">${t("action.counting")}</p>`}
        <footer><${Button} onClick=${onClose}>${t("cancel")}<//></footer>
      <//>`;
  return html`<${ConfirmCount}
      title=${title} count=${dry.count} counted=${t("workers.drain.count", { count: dry.count })}
      verb=${t("workers.drain")} kind="primary" onClose=${onClose} onConfirm=${async () => {
        // Drain only the workers that were counted: the user did not confirm workers that registered later.
        const done = await post("api/workers/drain", { worker_ids: dry.worker_ids });
        const undo = () => resumeAll({ worker_ids: done.worker_ids }, onDone);
        toast(t("workers.drain.begun", { count: done.count }), "ok", done.count > 0 ? undo : undefined);
        await onDone();
      }}>
      <p><strong><${Text} value=${what} max=${120} /></strong></p>
      <p>${t("workers.drain.jobs", { count: dry.jobs })} ${t("workers.drain.text")}</p>
    <//>`;
}

/**
 * Show how far the draining workers are: the jobs that they still run, and the longest of them.
 * @param {{workers: Worker[], mayOperate: boolean, onDone: () => unknown}} props
 */
export function DrainCountdown({ workers, mayOperate, onDone }) {
  useTick();
  const draining = workers.filter((worker) => worker.state === "draining");
  const busy = draining.filter((worker) => worker.busy > 0);
  const asked = busy
    .map((worker) => worker.id)
    .sort()
    .slice(0, MAX_ASKED);
  const { data } = useResource(
    (signal) => Promise.all(asked.map((id) => get(`api/workers/${encodeURIComponent(id)}`, {}, signal))),
    [asked.join()],
    { events: ["workers"], leastMs: POLL_MS, pollMs: POLL_MS },
  );
  if (draining.length === 0) return null;
  const left = busy.reduce((sum, worker) => sum + worker.busy, 0);
  const starts = (data ?? []).flatMap((worker) => worker.jobs).map((job) => Date.parse(job.started_at));
  const longest = left > 0 && starts.length > 0 ? Math.max(0, nowMs() - Math.min(...starts)) : null;
  const idle = draining.length - busy.length;
  return html`<section class="card drains" aria-label=${t("workers.drains")}>
      <div class="row" role="status">
        <${Badge} kind=${left > 0 ? "info" : "ok"}>
          ${t("workers.drains.count", { count: draining.length })}
        <//>
        <strong class="num">
          ${left > 0 ? t("workers.drains.left", { count: left }) : t("workers.drains.done")}
        </strong>
        ${
          longest !== null &&
          html`<span class="muted">${t("workers.drains.longest")} <${Duration} ms=${longest} /></span>`
        }
        <${Bar} value=${idle} of=${draining.length} label=${t("workers.drains.bar")} kind="ok" />
      </div>
      ${
        mayOperate &&
        html`<${Button}
            class="small"
            onClick=${() => resumeAll({ worker_ids: draining.map((worker) => worker.id) }, onDone)}>
            ${t("workers.resume.set", { count: draining.length })}
          <//>`
      }
    </section>`;
}
