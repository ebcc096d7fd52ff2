/** The attempts of a job, and the error that ended it. */
import { html } from "../core/lib.js";
import { t, tOr } from "../core/i18n.js";
import { isIn } from "../core/states.js";
import { visible } from "../core/text.js";
import { Badge, Duration, State, Text, Time } from "../ui/formats.js";
import { Value } from "../ui/values.js";
import { WorkerLink } from "../workers/worker_link.js";
import { JobLink, jobIn } from "./flow_parts.js";

/** @typedef {import("../../answers").Schemas["FlowView"]} FlowView */
/** @typedef {import("../../answers").Schemas["JobView"]} JobView */
/** @typedef {import("../../answers").Schemas["AttemptView"]} Attempt */

/** @param {JobView} job Returns whether the top of the page shows the error of the last attempt. */
export const isTold = (job) => isIn(job.state, "finished") && job.state !== "succeeded";

/**
 * Why the job ended, and where its error was raised. The page shows this at its top, where people look first.
 *
 * @param {{job: JobView, flow: FlowView | null}} props
 */
export function LastWord({ job, flow }) {
  const cause = job.skipped_by && jobIn(flow, job.skipped_by.id);
  const last = job.attempts.at(-1);
  return html`<section
      class=${`card last-word ${job.state === "failed" ? "bad" : job.state === "discarded" ? "ok" : ""}`}>
      <h2>
        ${t(`job.ended.${job.state}`)}${job.cause && ` · ${tOr(`cause.${job.cause}`, visible(job.cause))}`}
      </h2>
      ${
        last?.message
          ? html`<pre><${Text} value=${last.message} max=${1500} isBlock /></pre>`
          : last && html`<${HiddenError} job=${job} attempt=${last} />`
      }
      ${last && html`<${Stack} attempt=${last} isOpen />`}
      ${
        job.skipped_by &&
        html`<p>
            ${t("job.skipped_by")} <${JobLink} id=${job.skipped_by.id} flow=${flow} /> ${
              job.skipped_by.state && html`<${State} state=${job.skipped_by.state} />`
            }
            ${cause?.error && html` <span class="flow-reason"><${Text} value=${cause.error} max=${300} /></span>`}
          </p>`
      }
    </section>`;
}

/** @param {{job: JobView, attempt: Attempt}} props The type of an error whose text the caller may not see. */
function HiddenError({ job, attempt: one }) {
  if (!job.argument_hidden || !["failure", "timeout", "discarded"].includes(one.outcome ?? "")) return null;
  return html`<p class="muted">${one.error_type && html`<code><${Text} value=${one.error_type} max=${200} /></code> · `}${t("job.error_hidden")}</p>`;
}

/** @param {unknown} error @returns {string} The place in the code where the error was raised, as SDK workers report it; "" if it is not reported. */
const stackOf = (error) =>
  error !== null && typeof error === "object" && "traceback" in error && typeof error.traceback === "string"
    ? error.traceback.trimEnd()
    : "";

/** @param {{attempt: Attempt, isOpen: boolean}} props */
function Stack({ attempt: one, isOpen }) {
  const stack = stackOf(one.error);
  return (
    stack &&
    html`<details open=${isOpen}>
        <summary>${t("job.stack")}</summary>
        <pre class="message" tabindex="0" aria-label=${t("job.stack")}>
          <${Text} value=${stack} max=${4000} isBlock />
        </pre>
      </details>`
  );
}

/**
 * The attempts, the newest first. The newest one lacks the error that the top of the page already shows.
 *
 * @param {{job: JobView, workerNames: Map<string, string>}} props
 */
export function Attempts({ job, workerNames }) {
  const attempts = [...job.attempts].reverse();
  return html`<section class="card" aria-labelledby="attempts">
      <h2 id="attempts">${t("job.attempts")} <span class="muted num">${job.attempt}</span></h2>
      ${
        attempts.length === 0
          ? html`<p class="muted">${t("job.attempts.none")}</p>`
          : html`<ol class="attempts">
              ${attempts.map(
                (one, at) => html`<li key=${one.attempt} class=${`attempt ${one.outcome ?? "running"}`}>
                    <p class="row">
                      <strong>${t("job.attempt_n", { n: one.attempt })}</strong> <${Badge}
                        kind=${
                          one.outcome === null
                            ? "info"
                            : ["success", "discarded"].includes(one.outcome ?? "")
                              ? "ok"
                              : ["failure", "timeout", "lost"].includes(one.outcome)
                                ? "bad"
                                : "off"
                        }>
                        ${
                          one.outcome === null
                            ? tOr(`state.${job.state}`, visible(job.state))
                            : tOr(`outcome.${one.outcome}`, visible(one.outcome))
                        }
                      <//>
                      <span class="muted">
                        <${Time} at=${one.started_at} isPast />
                        ${
                          one.finished_at &&
                          html` · <${Duration} ms=${Date.parse(one.finished_at) - Date.parse(one.started_at)} />`
                        }
                      </span>
                      <span class="muted">
                        ${t("job.worker")} <${WorkerLink}
                          id=${one.worker_id} name=${workerNames.get(one.worker_id)} />
                      </span>
                    </p>
                    ${
                      (at > 0 || !isTold(job)) &&
                      html`${
                        one.message
                          ? html`<pre class="message"><${Text} value=${one.message} max=${1500} isBlock /></pre>`
                          : html`<${HiddenError} job=${job} attempt=${one} />`
                      }
                        <${Stack} attempt=${one} isOpen=${at === 0} />`
                    }
                    ${
                      one.error !== null &&
                      html`<details><summary>${t("job.error_value")}</summary><${Value} value=${one.error} label=${t("job.error_value")} /></details>`
                    }
                    ${job.events
                      .filter((event) => event.attempt === one.attempt)
                      .map(
                        (event) =>
                          html`<p class="muted">
                              <${Time} at=${event.at} /> ${tOr(`event.${event.event}`, visible(event.event))}
                              ${event.message && html`: <${Text} value=${event.message} />`}
                            </p>`,
                      )}
                  </li>`,
              )}
            </ol>`
      }
    </section>`;
}
