/** Why a job does not run, with links to the objects that hold it back. */
import { html } from "../core/lib.js";
import { Problem, get } from "../core/api.js";
import { AnswerButton, audienceText, subjectOf } from "../challenges/parts.js";
import { isPause } from "../constraints/pauses.js";
import { number, t } from "../core/i18n.js";
import { useResource } from "../core/resource.js";
import { href } from "../core/router.js";
import { visible } from "../core/text.js";
import { ErrorBox, Loading } from "../ui/controls.js";
import { Badge, Id, Text, Time, durationText } from "../ui/formats.js";
import { firstCauseOf, jobIn, titleOf } from "./flow_parts.js";
import { verdictText } from "./verdicts.js";

/** @typedef {import("../../answers").Schemas["WhyAnswer"]} Answer */
/** @typedef {import("../../answers").Schemas["FlowView"]} FlowView */
/** @typedef {import("../../answers").Schemas["ChallengeView"]} Challenge */
/** @typedef {import("../../answers").Schemas["JobView"]} JobView */

/**
 * @param {{why: {data: Answer | null, problem: Problem | null, reload: () => unknown}, job: JobView, flow: FlowView |
 *   null, challenges: Challenge[], mayOperate: boolean, onAnswered: () => unknown}} props
 *   `challenges`: the challenges of the job.
 */
export function Why({ why, job, flow, challenges, mayOperate, onAnswered }) {
  const answer = why.data;
  const open = challenges.find((one) => one.state === "processing" && one.received < one.expect);
  const nameOf = (/** @type {string} */ id) => {
    const found = jobIn(flow, id);
    return found && found.name !== null ? titleOf(found) : "";
  };
  const known = { nameOf, question: open ? subjectOf(open) : "" };
  const title = job.state === "running" ? t("why.running") : t("why.title");
  return html`<section class=${`card why ${answer?.verdicts[0]?.code ?? ""}`} aria-labelledby="why">
      <h2 id="why">${title}</h2>
      <${ErrorBox} problem=${why.problem} onRetry=${why.reload} />
      ${
        !answer
          ? html`<${Loading} isLoading=${!why.problem} />`
          : html`<ol class="verdicts">
              ${answer.verdicts.map(
                (verdict, at) => html`<li key=${verdict.code + at} class=${at === 0 ? "first" : ""}>
                    <p>
                      <${Text} value=${verdictText(verdict, answer, known)} max=${800} />
                      ${verdict.code === "awaiting_jobs" && html`<${FirstCause} flow=${flow} id=${job.id} />`}
                    </p>
                    <${VerdictMore} verdict=${verdict} />
                    ${
                      verdict.code === "awaiting_callback" &&
                      open &&
                      html`<p class="row">
            <span class="muted">${t("challenges.who")}: ${audienceText(open)}</span>
            ${mayOperate && html`<${AnswerButton} one=${open} onDone=${onAnswered} />`}
          </p>`
                    }
                  </li>`,
              )}
            </ol>
            ${answer.constraints.length > 0 && html`<${Limits} constraints=${answer.constraints} />`}`
      }
    </section>`;
}

/** @param {{flow: FlowView | null, id: string}} props Why the first predecessor has not ended. */
function FirstCause({ flow, id }) {
  const first = firstCauseOf(flow, id);
  // Leave out a direct predecessor, which the card already shows with its state and a link.
  const cause = first && !jobIn(flow, id)?.after.includes(first.id) ? first : null;
  const { data } = useResource(
    (signal) =>
      cause ? get(`api/jobs/${encodeURIComponent(cause.id)}/why`, {}, signal) : Promise.resolve(null),
    [cause?.id, cause?.state],
    { events: ["jobs", "workers", "constraints"], leastMs: 3000 },
  );
  const verdict = data?.verdicts[0];
  if (!cause || !data || !verdict) return null;
  return html` <span class="first-cause">
      ${t("job.skipped_by")} <a href=${href("job", { id: cause.id })}>${titleOf(cause)}</a>: <${Text}
        value=${verdictText(verdict, data)} max=${400} />
    </span>`;
}

/** @param {{verdict: Answer["verdicts"][number]}} props A link to the page where somebody can act on the verdict. */
function VerdictMore({ verdict }) {
  switch (verdict.code) {
    case "constraint":
      return html`<p class="muted">
          <a href=${href("constraints", { name: verdict.name })}>${t(isPause(verdict.name) ? "why.to_pause" : "why.to_constraint")}</a>
          ${verdict.opens_at && html` · ${t(isPause(verdict.name) ? "why.ends" : "why.opens")} <${Time} at=${verdict.opens_at} isNext />`}
          ${
            verdict.holders.length > 0 &&
            html` · ${t("why.holders")} ${verdict.holders
              .slice(0, 5)
              .map(
                (holder) => html`<${Id} id=${holder.job_id} href=${href("job", { id: holder.job_id })} /> `,
              )}`
          }
        </p>`;
    case "no_worker":
      return html`<p class="muted">
          ${t("why.next.no_worker")} <a href=${href("workers", { name: verdict.name })}>${t("why.to_workers")}</a>
        </p>`;
    case "no_matching_worker":
    case "workers_unavailable":
      return html`<p class="muted"><a href=${href("workers", { name: verdict.name })}>${t("why.to_workers")}</a></p>`;
    case "no_leader":
      return html`<p class="muted"><a href=${href("masters")}>${t("nav.masters")}</a></p>`;
    case "scheduled":
    case "retrying":
      return html`<p class="muted"><${Time} at=${verdict.due_at} /></p>`;
    case "running":
      return html`<p class="muted">
          <a href=${href("workers", { id: verdict.worker_id })}>${t("why.to_worker")}</a> · ${t(
            "why.deadline",
          )} <${Time} at=${verdict.deadline} />
          ${!verdict.confirmed && html` · <${Badge} kind="warn">${t("why.unconfirmed")}<//>`}
        </p>`;
    default:
      return null;
  }
}

/** @param {{constraints: Answer["constraints"]}} props */
function Limits({ constraints }) {
  return html`<details class="limits">
      <summary>${t("why.constraints", { count: constraints.length })}</summary>
      <ul class="plain">
        ${constraints.map(
          (one) => html`<li key=${one.name}>
              <${Badge} kind=${one.passes ? "ok" : one.mode === "shadow" ? "info" : "warn"}>
                ${one.passes ? t("why.passes") : t("why.closed")}
              <//> <a href=${href("constraints", { name: one.name })}>${visible(one.name)}</a>
              ${
                one.key &&
                html` <span class="muted">${visible(one.key)} = <${Text} value=${one.key_value} max=${80} /></span>`
              }
              ${one.weight && html` <span class="num">${number(one.weight.job)} ${one.weight.unit}</span>`}
              ${
                one.concurrency !== null &&
                html` <span class="num">${number((one.weight ?? one).running ?? 0)} / ${number(one.concurrency)}</span>`
              }
              ${
                one.rate &&
                html` <span class="num">
                    ${number((one.weight ? one.weight.in_window : one.starts) ?? 0)} / ${number(
                      one.rate.limit,
                    )} ${t("why.per", { duration: durationText(one.rate.period_s * 1000) })}
                  </span>`
              }
            </li>`,
        )}
      </ul>
    </details>`;
}
