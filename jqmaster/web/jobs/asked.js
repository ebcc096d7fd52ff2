/** The deliveries of a job to its webhook, and its challenges. */
import { html } from "../core/lib.js";
import { get, post } from "../core/api.js";
import { AnswerButton, Answers, ChallengeState, Phases, subjectOf } from "../challenges/parts.js";
import { t } from "../core/i18n.js";
import { useResource } from "../core/resource.js";
import { href } from "../core/router.js";
import { visible } from "../core/text.js";
import { Button, ErrorBox } from "../ui/controls.js";
import { attempt } from "../ui/dialogs.js";
import { Id, State, Text, Time } from "../ui/formats.js";

/** @typedef {import("../../answers").Schemas["JobView"]} JobView */
/** @typedef {`api/jobs/${string}`} JobPath */

/**
 * The deliveries to the job's webhook, each with its outcome.
 * @param {{job: JobView, path: JobPath, mayOperate: boolean}} props
 */
export function Deliveries({ job, path, mayOperate }) {
  const found = useResource((signal) => get(`${path}/deliveries`, {}, signal), [job.id, job.state], {
    events: ["jobs"],
    leastMs: 2000,
    everyMs: 5000,
  });
  const resend = (/** @type {string} */ id) =>
    attempt(
      () => post(`${path}/deliveries/${encodeURIComponent(id)}/resend`),
      t("job.deliveries.resent"),
    ).then(found.reload);
  const all = found.data?.deliveries ?? [];
  return html`<section class="card" aria-labelledby="deliveries">
      <h2 id="deliveries">${t("job.deliveries")}</h2>
      <p class="muted"><${Text} value=${job.notify?.url} max=${200} /></p>
      <${ErrorBox} problem=${found.problem} onRetry=${found.reload} />
      ${found.data && all.length === 0 && html`<p class="muted">${t("job.deliveries.none")}</p>`}
      <ul class="plain">
        ${all.map(
          (one) => html`<li key=${one.id}>
              <p class="row">
                <${State} state=${one.state} /> ${one.event && html`<code>${visible(one.event)}</code>`} <${
                  Time
                }
                  at=${one.finished_at ?? one.created_at} /> <${Id}
                  id=${one.id} href=${href("job", { id: one.id })} />
                ${
                  one.next_at &&
                  html`<span class="muted">${t("job.deliveries.next")} <${Time} at=${one.next_at} /></span>`
                }
                ${
                  mayOperate &&
                  one.state !== "running" &&
                  one.state !== "ready" &&
                  html`<${Button} class="small" onClick=${() => resend(one.id)}>${t("job.deliveries.resend")}<//>`
                }
              </p>
              ${
                one.state !== "succeeded" &&
                one.attempts.at(-1)?.message &&
                html`<p class="muted"><${Text} value=${one.attempts.at(-1)?.message} max=${300} /></p>`
              }
            </li>`,
        )}
      </ul>
    </section>`;
}

/** @param {JobView | null} job @param {JobPath} path Returns the challenges of the job. */
export const useChallenges = (job, path) =>
  useResource(
    (signal) => (job ? get(`${path}/challenges`, {}, signal) : Promise.resolve(null)),
    [job?.id, job?.state],
    { events: ["jobs"], leastMs: 2000, everyMs: 5000 },
  );

/** @param {{found: ReturnType<typeof useChallenges>, mayOperate: boolean}} props */
export function Challenges({ found, mayOperate }) {
  const all = found.data?.challenges ?? [];
  if (all.length === 0 && !found.problem) return null;
  return html`<section class="card" aria-labelledby="challenges">
      <h2 id="challenges">${t("nav.challenges")}</h2>
      <${ErrorBox} problem=${found.problem} onRetry=${found.reload} />
      <ol class="attempts">
        ${all.map(
          (one) => html`<li key=${one.request} class="attempt">
              <p class="row">
                <${ChallengeState} state=${one.state} /> <strong>
                  <${Text} value=${subjectOf(one)} max=${200} />
                </strong> ${mayOperate && html`<${AnswerButton} one=${one} onDone=${found.reload} />`}
              </p>
              ${
                (one.code || one.error) &&
                html`<p>${one.code && html`<code>${visible(one.code)}</code> `}<${Text} value=${one.error ?? ""} max=${300} /></p>`
              }
              <${Answers} one=${one} /><${Phases} one=${one} />
            </li>`,
        )}
      </ol>
    </section>`;
}
