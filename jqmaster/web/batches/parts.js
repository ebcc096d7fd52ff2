/** The parts of pages that show a batch: its progress, the work that it waits for, and the jobs that it starts. */
import { number, t } from "../core/i18n.js";
import { get } from "../core/api.js";
import { html, useEffect, useState } from "../core/lib.js";
import { useResource } from "../core/resource.js";
import { href } from "../core/router.js";
import { STATES } from "../core/states.js";
import { visible } from "../core/text.js";
import { BacklogWhy } from "../jobs/backlog_why.js";
import { errorKinds } from "../jobs/error_kinds.js";
import { Badge, Num, State, Text, nowMs } from "../ui/formats.js";

/** @typedef {import("../../answers").Schemas["BatchWhy"]} Why */

/** @typedef {import("../../answers").Schemas["JobSummary"]} JobSummary */
/** @typedef {import("../../answers").Schemas["BatchReason"]} BatchReason */

/** @typedef {import("../../answers").Schemas["BatchView"]} Batch */

const ERRORS_READ = 100;
const ERRORS_SHOWN = 5;
export const CALLBACKS = /** @type {const} */ (["on_success", "on_complete", "on_failure"]);

/** @param {Batch} batch @returns {string} The first line of the batch's description, or the end of its ID. */
export const titleOf = (batch) => batch.description.split("\n")[0] || `…${batch.id.slice(-10)}`;

/** @param {string | undefined} id @returns {Batch | null} The batch with this ID; null if it is not loaded yet or does not exist. */
export function useBatch(id) {
  const [batch, setBatch] = useState(/** @type {Batch | null} */ (null));
  useEffect(() => {
    if (!id) return undefined;
    const aborter = new AbortController();
    const path = /** @type {const} */ (`api/batches/${encodeURIComponent(id)}`);
    get(path, {}, aborter.signal).then(setBatch, () => {});
    return () => {
      aborter.abort();
      setBatch(null);
    };
  }, [id]);
  return batch;
}

/** @param {Batch} batch @returns {boolean} Whether the batch can succeed only after somebody retries failed jobs. */
export const hasFailed = ({ counts, batches }) =>
  counts.failed + counts.canceled + counts.skipped + counts.deleted + batches.failed > 0;

/** @param {{batch: Batch}} props */
export function BatchState({ batch }) {
  const { state, canceled_at } = batch;
  if (canceled_at) return html`<${Badge} kind="off">${t("batches.state.canceled")}<//>`;
  const kind =
    state === "complete" ? (hasFailed(batch) ? "bad" : "ok") : state === "sealed" ? "info" : "warn";
  const word = state === "complete" && hasFailed(batch) ? "complete_failed" : state;
  return html`<${Badge} kind=${kind}>${t(`batches.state.${word}`)}<//>`;
}

/**
 * @param {Batch} batch
 * @returns {[string, number][]} The jobs of the batch by state. Unfinished jobs are one entry if they are not counted
 *   by state.
 */
export function countsOf({ counts }) {
  const byState = /** @type {Record<string, number | null | undefined>} */ ({ ...counts });
  const known = Object.keys(STATES).flatMap((state) =>
    byState[state] ? [/** @type {[string, number]} */ ([state, byState[state]])] : [],
  );
  const isCounted = Object.keys(STATES).every((state) => typeof byState[state] === "number");
  return isCounted || !counts.unfinished ? known : [["unfinished", counts.unfinished], ...known];
}

/** @param {Batch} batch @returns {number} The percentage of jobs that are over, rounded down: 100 means all jobs. */
export const shareOf = ({ counts }) =>
  counts.total ? Math.floor(((counts.total - counts.unfinished) / counts.total) * 100) : 0;

/** @param {{batch: Batch}} props One bar with all jobs of the batch, by state. */
export function BatchStrip({ batch }) {
  const counts = countsOf(batch).filter(([state]) => state !== "unfinished");
  const { total, unfinished } = batch.counts;
  const ended = counts.filter(([state]) => STATES[state]?.phase === "finished");
  const label = t("batches.over_of", { over: total - unfinished, total });
  // The empty part of the bar stands for jobs that wait or run; finished jobs fill it.
  return html`<span class="strip batch-strip" role="img" aria-label=${label} title=${label}>
      ${ended.map(
        ([state, count]) =>
          html`<i key=${state} class=${`seg seg-${state}`} style=${{ width: `${(count / Math.max(1, total)) * 100}%` }}></i>`,
      )}
    </span>`;
}

/** @param {{batch: Batch}} props The share of finished jobs, for a row of a list. */
export function BatchProgress({ batch }) {
  const { total, unfinished } = batch.counts;
  return html`<span class="batch-progress">
      <${BatchStrip} batch=${batch} />
      <span class="num"><${Num} value=${total - unfinished} /> / <${Num} value=${total} /></span>
    </span>`;
}

/** @param {Batch} batch @param {BatchReason} reason One of the reasons in `GET /api/batches/{id}/why`. @returns {string} */
export function reasonText(batch, reason) {
  const { counts, batches } = batch;
  switch (reason.code) {
    case "open":
      return t("batches.why.open");
    case "jobs":
      return t("batches.why.jobs", { count: counts.unfinished, total: counts.total });
    case "batches":
      return t("batches.why.batches", {
        count: batches.total - batches.succeeded - batches.failed,
        total: batches.total,
      });
    case "callback":
      return t("batches.why.callback", {
        callback: CALLBACKS.filter((one) => batch.callbacks[one]?.state === "due").join(", "),
      });
    case "failed": {
      const bad = /** @type {const} */ (["failed", "canceled", "skipped", "deleted"]);
      const what = bad
        .filter((state) => counts[state] > 0)
        .map((state) =>
          t(`batches.why.${state === "failed" ? "failed_jobs" : state}`, { count: counts[state] }),
        );
      if (batches.failed) what.push(t("batches.why.in_batches", { count: batches.failed }));
      return t("batches.why.failed", { what: what.join(", ") || t("batches.state.canceled") });
    }
    default:
      return visible(reason.text);
  }
}

/** @param {{batch: Batch}} props The jobs that the batch starts when it is over. */
export function Callbacks({ batch }) {
  const some = CALLBACKS.flatMap((callback) => {
    const one = batch.callbacks[callback];
    return one ? [{ ...one, callback }] : [];
  });
  return html`<section class="card" aria-labelledby="callbacks">
      <h2 id="callbacks">${t("batches.callbacks")}</h2>${
        some.length === 0
          ? html`<p class="muted">${t("batches.callbacks.none")}</p>`
          : html`<dl class="facts">
              ${some.map(
                (one) =>
                  html`<dt key=${one.callback}>${t(`batches.${one.callback}`)}</dt>
                    <dd>
                      ${
                        one.state === "enqueued"
                          ? html`<a href=${href("job", { id: one.job_id })}><${Text} value=${one.name} max=${80} /></a>`
                          : html`<${Text} value=${one.name} max=${80} />`
                      } <${Badge}
                        kind=${one.state === "enqueued" ? "ok" : one.state === "due" ? "info" : "off"}>
                        ${callbackText(batch, one.state)}
                      <//>
                    </dd>`,
              )}
            </dl>`
      }
    </section>`;
}

/** @param {{batch: Batch}} props The errors of the batch's failed jobs, the most frequent first. */
function FailedWith({ batch }) {
  const { data } = useResource(
    (signal) =>
      get("api/jobs", { batch: batch.id, state: "failed", include: "error", limit: ERRORS_READ }, signal),
    [batch.id, batch.counts.failed],
    { everyMs: 15_000 },
  );
  const most = errorKinds(data?.jobs ?? [])
    .filter(({ error }) => error)
    .slice(0, ERRORS_SHOWN);
  return html`<ul class="plain">
      ${most.map(
        ({ name, error, count }) =>
          html`<li key=${`${name} ${error}`}>
              <a href=${href("batches", { id: batch.id, state: "failed" })}>${number(count)} ×</a> <${Text}
                value=${error} max=${300} />
            </li>`,
      )}
    </ul>`;
}

/** @param {BatchReason[]} reasons @returns {BatchReason[]} */
export const failuresFirst = (reasons) => [
  ...reasons.filter((reason) => reason.code === "failed"),
  ...reasons.filter((reason) => reason.code !== "failed"),
];

/**
 * Return the state of a callback in words. A callback that still waits when the batch is over was not started.
 *
 * @param {Batch} batch
 * @param {string} state
 * @returns {string}
 */
export const callbackText = (batch, state) =>
  t(`batches.callback.${state === "waiting" && batch.state === "complete" ? "not_started" : state}`);

/** @param {{batch: Batch, why: Why | null}} props Why the batch is not complete, or why its callback `on_success` was not started. */
export function BatchWhy({ batch, why }) {
  if (!why?.reasons.length) return null;
  const late = batch.expires_at && Date.parse(batch.expires_at) - nowMs() < 3_600_000;
  return html`<section class="card why" aria-labelledby="why">
      <h2 id="why">${t(batch.state === "complete" ? "batches.why.complete" : "batches.why.title")}</h2>
      <ol class="verdicts">
        ${failuresFirst(why.reasons).map(
          (reason, at) =>
            html`<li key=${reason.code + at} class=${at === 0 ? "first" : ""}><p>${reasonText(batch, reason)}</p></li>`,
        )}
      </ol>
      ${batch.counts.failed > 0 && html`<${FailedWith} batch=${batch} />`}
      ${batch.counts.unfinished > 0 && html`<${BacklogWhy} whose=${{ batch: batch.id }} />`}
      ${late && html`<p class="muted">${t("batches.why.expires")}</p>`}
      ${
        why.jobs.length > 0 &&
        html`<h3>${t("batches.why.oldest")}</h3>
          <ul class="plain">
            ${why.jobs.map(
              (job) =>
                html`<li key=${job.id}>
                    <${State} state=${job.state} /> <a href=${href("job", { id: job.id })}>
                      <${Text} value=${job.name} max=${60} />
                    </a> <span class="id muted">…${job.id.slice(-10)}</span>
                  </li>`,
            )}
          </ul>`
      }
    </section>`;
}
