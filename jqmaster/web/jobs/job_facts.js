/** The facts of a job: its terms, times and labels. */
import { html } from "../core/lib.js";
import { t, tOr } from "../core/i18n.js";
import { labelsText } from "../workers/labels.js";
import { WorkerLink } from "../workers/worker_link.js";
import { PauseButton } from "../constraints/pause_dialog.js";
import { href } from "../core/router.js";
import { visible } from "../core/text.js";
import { Duration, Id, Num, Text, Time } from "../ui/formats.js";
import { Progress } from "../ui/progress.js";
import { retriesText } from "./columns.js";

/** @typedef {import("../../answers").Schemas["JobView"]} JobView */

/** @param {{job: JobView, mayOperate: boolean, workerNames: Map<string, string>}} props */
export function Facts({ job, mayOperate, workerNames }) {
  return html`<section class="card">
      <h2>${t("job.facts")}</h2>
      <dl class="facts">
        <dt>${t("job.name")}</dt>
        <dd>
          <a href=${href("names", { name: job.name })}><${Text} value=${job.name} max=${100} /></a> ${
            mayOperate &&
            html`<${PauseButton} target=${{ job_name: job.name }} what=${t("pause.what.name", { name: visible(job.name) })} />`
          }
        </dd>
        <dt>${t("job.priority")}</dt><dd><${Num} value=${job.priority} /></dd>
        <dt>${t("job.retries")}</dt>
        <dd>${retriesText(job)}${job.losses > 0 && html` · ${t("job.losses", { count: job.losses })}`}</dd>
        ${
          job.progress &&
          job.state !== "succeeded" &&
          html`<dt>${t("job.progress")}</dt><dd><${Progress} progress=${job.progress} /> <span class="muted"><${Time} at=${job.progress.at} /></span></dd>`
        }
        <${Steps} steps=${job.steps ?? []} />
        <dt>${t("job.timeout")}</dt><dd><${Duration} ms=${job.timeout * 1000} /></dd>
        <dt>${t("job.created")}</dt><dd><${Time} at=${job.created_at} /></dd>
        <dt>${t(job.state === "awaiting_callback" ? "job.due.answer" : "job.due")}</dt>
        <dd><${Time} at=${job.run_at} /></dd>
        ${job.expires_at && html`<dt>${t("job.expires")}</dt><dd><${Time} at=${job.expires_at} /></dd>`}
        <dt>${t("job.keep_result")}</dt><dd>${t(job.keep_result ? "yes" : "no")}</dd>
        ${
          job.worker_id &&
          html`<dt>${t("job.worker")}</dt><dd><${WorkerLink} id=${job.worker_id} name=${workerNames.get(job.worker_id)} /></dd>`
        }
        ${
          job.requires &&
          html`<dt>${t("job.requires")}</dt><dd><${Text} value=${labelsText(job.requires)} max=${200} /></dd>`
        }
        <${Tags} tags=${job.tags} mayOperate=${mayOperate} />
        <${Origin} job=${job} />
        <${Unique} job=${job} />
        <${Links} job=${job} />
        ${Object.entries(job.headers).map(
          ([key, value]) =>
            html`<dt><${Text} value=${key} max=${64} /></dt><dd><${Text} value=${value} max=${300} /></dd>`,
        )}
      </dl>
    </section>`;
}

/** @param {{steps: NonNullable<JobView["steps"]>}} props */
function Steps({ steps }) {
  if (steps.length === 0) return null;
  return html`<dt>${t("job.steps")}</dt>
    <dd>
      <ol class="plain">
        ${steps.map(
          (one, n) =>
            html`<li key=${n}>
                <${Text} value=${one.name ?? t("job.hidden")} max=${100} /> <span class="muted">
                  <${Time} at=${one.at} /> · <${Duration} ms=${one.took_s * 1000} />
                </span>
              </li>`,
        )}
      </ol>
    </dd>`;
}

/** @param {{tags: string[], mayOperate: boolean}} props */
function Tags({ tags, mayOperate }) {
  if (tags.length === 0) return null;
  return html`<dt>${t("job.tags")}</dt>
    <dd>
      ${tags.map(
        (tag) =>
          html`<a class="chip" href=${href("jobs", { tag })}><${Text} value=${tag} max=${64} /></a> ${
            mayOperate &&
            html`<${PauseButton} target=${{ tag }} what=${t("pause.what.tag", { tag: visible(tag) })} /> `
          }`,
      )}
    </dd>`;
}

/** @param {{job: JobView}} props The definition or the batch that the job belongs to. */
function Origin({ job }) {
  const { definition, batch, callback_of: callbackOf } = job;
  return html`${
    definition &&
    html`<dt>${t("job.definition")}</dt>
      <dd>
        <a href=${href("definitions", { name: definition.name })}>
          <${Text} value=${definition.name} max=${100} />
        </a> <span class="muted">${t("definitions.due")} <${Time} at=${definition.due_at} /></span>
      </dd>`
  }${
    batch &&
    html`<dt>${t("job.batch")}</dt><dd><${Id} id=${batch} href=${href("batches", { id: batch })} /></dd>`
  }${
    callbackOf &&
    html`<dt>${t("job.callback_of")}</dt>
      <dd>
        <${Id} id=${callbackOf.batch} href=${href("batches", { id: callbackOf.batch })} /> <span class="muted">
          ${tOr(`batches.${callbackOf.callback}`, visible(callbackOf.callback))}
        </span>
      </dd>`
  }`;
}

/** @param {{job: JobView}} props */
function Unique({ job: { unique } }) {
  if (!unique) return null;
  return html`<dt>${t("job.unique")}</dt>
    <dd>
      <${Text} value=${unique.key ?? t("job.unique_argument")} max=${128} /> <span class="muted">
        ${t(`job.unique.${unique.scope}`)}
        ${unique.until && html` <${Time} at=${unique.until} />`}
        ${unique.debounce && ` · ${t("job.debounced")}`}
      </span>
    </dd>`;
}

/** @param {{job: JobView}} props The links that the job's worker reported, and the constraints that limit the job. */
function Links({ job: { links, constraints } }) {
  return html`${
    links &&
    links.length > 0 &&
    html`<dt>${t("job.links")}</dt>
      <dd>
        ${links.map(
          (link) =>
            html`<a key=${link.label} class="chip" href=${link.url} target="_blank" rel="noreferrer"><${Text} value=${link.label} max=${40} /></a> `,
        )}
      </dd>`
  }${
    constraints.length > 0 &&
    html`<dt>${t("nav.constraints")}</dt>
      <dd>
        ${constraints.map(
          (name) =>
            html`<a class="chip" href=${href("constraints", { name })}><${Text} value=${name} max=${64} /></a> `,
        )}
      </dd>`
  }`;
}
