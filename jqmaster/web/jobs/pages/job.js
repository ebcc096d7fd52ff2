/** One job: its outcome, why it waits, its content, and the actions of operators. */
import { html, useEffect, useState } from "../../core/lib.js";
import { Problem, del, get, may, patch, post, toJson } from "../../core/api.js";
import { AnswerButton, Answers, ChallengeState, Phases, subjectOf } from "../../challenges/parts.js";
import { curl } from "../../core/curl.js";
import { number, t, tOr } from "../../core/i18n.js";
import { Flow, loadFlow } from "../flow.js";
import { labelsText } from "../../workers/labels.js";
import { useResource } from "../../core/live.js";
import { PauseButton } from "../../constraints/pause_dialog.js";
import { JobLog } from "../../logs/job_log.js";
import { href } from "../../core/router.js";
import { admits, isIn } from "../../core/states.js";
import { visible } from "../../core/text.js";
import { Button, Copy, CopyMenu, Empty, ErrorBox, Loading } from "../../ui/controls.js";
import { ConfirmCount, attempt, toast } from "../../ui/dialogs.js";
import {
  Badge,
  Bytes,
  Duration,
  Id,
  Num,
  State,
  Text,
  Time,
  bytesText,
  durationText,
  nowMs,
  steadyMs,
  tellTime,
  useTick,
} from "../../ui/formats.js";
import { FormDialog } from "../../ui/form_dialog.js";
import { FormField, useForm } from "../../ui/forms.js";
import { LATEST, inZone, inputOf, instantIn, useZone } from "../../ui/instants.js";
import { Progress, useProgress } from "../../ui/progress.js";
import { useTitle } from "../../ui/titles.js";
import { Value } from "../../ui/values.js";
import { retriesText } from "../columns.js";
import { verdictText } from "../verdicts.js";

/** @typedef {import("../../../answers").Schemas["PredecessorView"]} PredecessorView */

/** @typedef {import("../../../answers").Schemas["WhyAnswer"]} Answer */
/** @typedef {import("../../../answers").Schemas["LinkedJob"]} LinkedJob */

/** @typedef {import("../../../answers").Schemas["JobView"]} JobView */
/** @typedef {`api/jobs/${string}`} JobPath */
/** @typedef {import("../../../answers").Schemas["AttemptView"]} Attempt */
/** @typedef {{state: string, label: string, from: number, to: number | null, attempt?: Attempt}} Phase */

/** @param {{query: Record<string, string>, go: typeof import("../../core/router.js").go, session: import("../../core/api.js").Session}} props */
export function Page({ query, go, session }) {
  const id = query["id"] ?? "";
  const path = /** @type {const} */ (`api/jobs/${encodeURIComponent(id)}`);
  const found = useResource((signal) => (id ? get(path, {}, signal) : Promise.resolve(null)), [id], {
    events: ["jobs"],
    leastMs: 1000,
    everyMs: 3000,
    // The pusher's own changes are not in the audit log, so no event announces them.
    pollMs: 5000,
  });
  useTitle(
    found.data
      ? `${tOr(`state.${found.data.state}`, found.data.state)} · ${found.data.name} · …${id.slice(-6)}`
      : null,
  );
  const job = found.data?.id === id ? found.data : null;
  const isOver = job !== null && isIn(job.state, "finished");
  useProgress(job ? [job] : [], false, found.reload);
  const why = useResource(
    (signal) => (job && !isOver ? get(`${path}/why`, {}, signal) : Promise.resolve(null)),
    [id, job?.state],
    { events: ["jobs", "workers", "masters", "constraints"], leastMs: 1500, everyMs: 4000 },
  );
  useEffect(() => {
    if (why.data) tellTime(why.data.as_of);
  }, [why.data?.as_of]);
  const [dialog, setDialog] = useState("");

  if (!id)
    return html`<h1>${t("nav.job")}</h1><p>${t("job.no_id")} <a href=${href("jobs")}>${t("nav.jobs")}</a></p>`;
  if (!job) {
    if (found.problem?.status === 404)
      return html`<h1>${t("nav.job")}</h1>
        <div class="card">
          <${Empty} title=${t("job.unknown")}>
            <p><code>${visible(id)}</code></p><p>${t("job.unknown.text")}</p>
            <p><a href=${href("jobs")}>${t("nav.jobs")}</a></p>
          <//>
        </div>
        <${JobLog} key=${id} path=${path} isGone mayErase=${may(session, "operate")} />`;
    return html`<h1>${t("nav.job")}</h1><${ErrorBox} problem=${found.problem} onRetry=${found.reload} />${!found.problem && html`<${Loading} />`}`;
  }
  const again = async () => {
    await found.reload();
  };
  const act = (/** @type {string} */ name) =>
    // A double click, or a page that is out of date, does not run the job once more.
    attempt(
      () => post(`${path}/${name}`, name === "retry" ? { attempt: job.attempt } : undefined),
      t(`job.${name}.done`),
    ).then(again);
  const mayOperate = may(session, "operate");
  return html`<p class="crumbs">
      <a href=${href("jobs")}>${t("nav.jobs")}</a> / <a href=${href("jobs", { name: job.name })}>
        <${Text} value=${job.name} max=${60} />
      </a>
    </p>
    <div class="page-head job-head">
      <h1><${Text} value=${job.name} max=${120} /></h1>
      <span class="big-state"><${State} state=${job.state} /></span>
    </div>
    <div class="row job-id">
      <code class="id">${visible(job.id)}</code> <${CopyMenu}>
        <${Copy} text=${job.id} label=${t("copy.id")} /> <${Copy}
          text=${() => toJson(job, 2)} label=${t("copy.json")} /> ${
            !isIncomplete(job) &&
            html`<${Copy} text=${() => curl(session, "POST", "api/jobs", { body: { ...specOf(job), ...uniqueOf(job) } })} label=${t("copy.curl")} />`
          }
      <//>
    </div>
    <${ErrorBox} problem=${found.problem} />
    <div class="row actions" role="group" aria-label=${t("job.actions")}>
      ${
        mayOperate &&
        admits(job.state, "run") &&
        html`<${Button} kind="primary" onClick=${() => act("run")}>${t("job.run")}<//>`
      }
      ${
        mayOperate &&
        admits(job.state, "retry") &&
        html`<${Button} kind="primary" onClick=${() => act("retry")}>${t("job.retry")}<//>`
      }
      ${
        mayOperate &&
        admits(job.state, "set_priority") &&
        html`<${Button} opensDialog onClick=${() => setDialog("change")}>${t("job.change")}<//>`
      }
      ${
        may(session, "push") &&
        !job.argument_hidden &&
        html`<a class="button as-link" href=${href("enqueue", { from: job.id })}>${t("job.again")}</a>`
      }
      ${
        may(session, "push") &&
        admits(job.state, "cancel") &&
        html`<${Button} opensDialog kind="danger" onClick=${() => setDialog("cancel")}>${t("job.cancel")}<//>`
      }
      ${
        mayOperate &&
        admits(job.state, "delete") &&
        html`<${Button} opensDialog kind="danger" onClick=${() => setDialog("delete")}>${t("job.delete")}<//>`
      }
    </div>
    ${!isOver && html`<${Why} why=${why} job=${job} />`}
    ${isTold(job) && html`<${LastWord} job=${job} />`}
    ${
      job.erased &&
      job.erased.length > 0 &&
      html`<p class="muted">
          ${t("personal.job.erased")}
          : ${job.erased.map(
            (field) => html`<code class="chip"><${Text} value=${field} max=${80} /></code> `,
          )}
        </p>`
    }
    <div class="job-grid">
      <div class="stack">
        <${Timeline} job=${job} />
        <${Challenges} job=${job} path=${path} mayOperate=${mayOperate} />
        <${Attempts} job=${job} />
      </div>
      <div class="stack">
        <${Carried}
          title=${t("job.argument")} value=${job.argument} isHidden=${job.argument_hidden}
          isRedacted=${job.argument_redacted} bytes=${job.argument_bytes} />
        ${
          (job.has_result || job.keep_result) &&
          html`<${Carried} title=${t("job.result")} value=${job.result} isHidden=${job.result_hidden} isMissing=${!job.has_result} />`
        }
        <${Order} job=${job} />
        <${Facts} job=${job} mayOperate=${mayOperate} />
        ${job.notify && html`<${Deliveries} job=${job} path=${path} mayOperate=${mayOperate} />`}
      </div>
    </div>
    ${job.attempt > 0 && html`<${JobLog} key=${job.id} path=${path} mayErase=${mayOperate && isOver} />`}
    ${
      (job.after || (job.dependents_count ?? 0) > 0) &&
      html`<${FlowCard} key=${job.id} job=${job} path=${path} session=${session} />`
    }
    ${
      dialog === "change" &&
      html`<${Change} job=${job} path=${path} onClose=${() => setDialog("")} onDone=${again} />`
    }
    ${
      dialog === "cancel" &&
      html`<${ConfirmCount} title=${t("job.cancel.title")} count=${1} verb=${t("job.cancel")} onClose=${() => setDialog("")} onConfirm=${async () => {
        await post(`${path}/cancel`);
        await again();
      }}><p>${t(job.state === "running" ? "job.cancel.running" : "job.cancel.text")}</p><//>`
    }
    ${
      dialog === "delete" &&
      html`<${ConfirmCount} title=${t("job.delete.title")} count=${1} verb=${t("job.delete")} onClose=${() => setDialog("")} onConfirm=${async () => {
        await del(path);
        toast(t("job.deleted", { name: visible(job.name) }));
        go("jobs", {});
      }}><p>${t("job.delete.text")}</p><//>`
    }`;
}

/**
 * Whether part of what the job carries is not shown: a copy would be a different job.
 * @param {JobView} job
 */
export function isIncomplete(job) {
  return job.argument_hidden || isArgumentIncomplete(job) || job.headers_redacted;
}

/** @param {JobView} job */
export const isArgumentIncomplete = (job) =>
  job.argument_redacted || isTooLarge(job.argument, job.argument_bytes) || isSealed(job.argument);

/**
 * Whether a value is sealed: it opens for its own job alone.
 * @param {unknown} value
 * @returns {value is {sealed_with: string, sealed: unknown}}
 */
const isSealed = (value) =>
  value !== null &&
  typeof value === "object" &&
  "sealed_with" in value &&
  typeof value.sealed_with === "string" &&
  "sealed" in value;

/**
 * @param {unknown} value
 * @param {number} bytes
 */
const isTooLarge = (value, bytes) => value === null && bytes > 1;

/**
 * Return the job as somebody would push it. Do not call this for an incomplete one.
 * @param {JobView} job
 */
export function specOf(job) {
  return {
    name: job.name,
    argument: job.argument,
    ...(job.priority !== 0 && { priority: job.priority }),
    max_retry: job.max_retry,
    timeout: job.timeout,
    ...(job.keep_result && { keep_result: true }),
    ...(job.tags.length && { tags: job.tags }),
    ...(Object.keys(job.headers).length && { headers: job.headers }),
    ...(job.requires && { requires: job.requires }),
  };
}

/** @param {JobView} job @returns {object} The fields of a push that make such a job unique, or debounce it. */
function uniqueOf({ unique, created_at }) {
  if (!unique) return {};
  const key = unique.key !== null && { key: unique.key };
  if (unique.debounce) {
    const { wait_s, max_s } = unique.debounce;
    return { debounce: { ...key, wait_s, ...(max_s !== null && { max_s }) } };
  }
  const { scope, on_conflict } = unique;
  const ttl_s = unique.until && (Date.parse(unique.until) - Date.parse(created_at)) / 1000;
  return { unique: { ...key, scope, on_conflict, ...(scope === "window" && { ttl_s }) } };
}

/** @param {{why: {data: Answer | null, problem: Problem | null, reload: () => unknown}, job: JobView}} props */
function Why({ why, job }) {
  const answer = why.data;
  const title = job.state === "running" ? t("why.running") : t("why.title");
  return html`<section class=${`card why ${answer?.verdicts[0]?.code ?? ""}`} aria-labelledby="why"><h2 id="why">${title}</h2>
    <${ErrorBox} problem=${why.problem} onRetry=${why.reload} />
    ${
      !answer
        ? html`<${Loading} isLoading=${!why.problem} />`
        : html`<ol class="verdicts">${answer.verdicts.map(
            (verdict, at) => html`<li key=${verdict.code + at} class=${at === 0 ? "first" : ""}>
      <p><${Text} value=${verdictText(verdict, answer)} max=${800} /></p><${VerdictMore} verdict=${verdict} /></li>`,
          )}</ol>
      ${answer.constraints.length > 0 && html`<${Limits} constraints=${answer.constraints} />`}`
    }</section>`;
}

/** @param {{verdict: Answer["verdicts"][number]}} props Where to go from here. */
function VerdictMore({ verdict }) {
  switch (verdict.code) {
    case "constraint":
      return html`<p class="muted">
          <a href=${href("constraints", { name: verdict.name })}>${t("why.to_constraint")}</a>
          ${verdict.opens_at && html` · ${t("why.opens")} <${Time} at=${verdict.opens_at} isNext />`}
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

/** @param {JobView} job Whether the top of the page shows the error of the last attempt. */
const isTold = (job) => isIn(job.state, "finished") && job.state !== "succeeded";

/** @param {{job: JobView}} props Why the job ended and where the error was raised, at the top, where people look first. */
function LastWord({ job }) {
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
            ${t("job.skipped_by")} <${Id}
              id=${job.skipped_by.id} href=${href("job", { id: job.skipped_by.id })} /> ${
                job.skipped_by.state && html`<${State} state=${job.skipped_by.state} />`
              }
          </p>`
      }
    </section>`;
}

/** @param {{job: JobView, attempt: Attempt}} props The type of an error whose text the caller may not see. */
function HiddenError({ job, attempt: one }) {
  if (!job.argument_hidden || !["failure", "timeout", "discarded"].includes(one.outcome ?? "")) return null;
  return html`<p class="muted">${one.error_type && html`<code><${Text} value=${one.error_type} max=${200} /></code> · `}${t("job.error_hidden")}</p>`;
}

/**
 * The states that the job was in, as far as they are kept: each with its beginning and end.
 * @param {JobView} job
 * @returns {Phase[]}
 */
export function statesOf(job) {
  const ms = (/** @type {string | null} */ at) => (at ? Date.parse(at) : null);
  const created = Date.parse(job.created_at);
  const due = ms(job.run_at);
  const end = ms(job.finished_at);
  /** @type {Phase[]} */
  const states = [];
  let at = created;
  const add = (
    /** @type {string} */ state,
    /** @type {number | null} */ to,
    /** @type {Attempt | undefined} */ ofAttempt = undefined,
  ) => {
    if (to === null || to > at || ofAttempt)
      states.push({
        state,
        label: tOr(`state.${state}`, state),
        from: at,
        to,
        ...(ofAttempt && { attempt: ofAttempt }),
      });
    if (to !== null) at = to;
  };
  for (const [i, one] of job.attempts.entries()) {
    const start = Date.parse(one.started_at);
    const before = job.attempts[i - 1];
    // The due time is kept only for the latest wait.
    const isLatest = i === job.attempts.length - 1 && due !== null && due > at && due <= start;
    if (isLatest) add(before ? "retrying" : "scheduled", due);
    if (start > at)
      add(
        before && !isLatest && ["failure", "timeout", "lost"].includes(before.outcome ?? "")
          ? "retrying"
          : "ready",
        start,
      );
    at = start;
    add(one.finished_at === null ? job.state : "running", ms(one.finished_at), one);
  }
  if (end !== null) {
    if (end > at) add("ready", end);
    states.push({ state: job.state, label: tOr(`state.${job.state}`, job.state), from: end, to: end });
  } else if (!isIn(job.state, "running")) {
    if (due !== null && due > at && job.state === "ready")
      add(job.attempts.length ? "retrying" : "scheduled", due);
    states.push({ state: job.state, label: tOr(`state.${job.state}`, job.state), from: at, to: null });
  }
  return states;
}

/** @param {{job: JobView}} props */
function Timeline({ job }) {
  useTick();
  const states = statesOf(job);
  const lasted = states.map((one) => Math.max(0, (one.to ?? nowMs()) - one.from));
  const whole = lasted.reduce((all, ms) => all + ms, 0) || 1;
  return html`<section class="card" aria-labelledby="timeline">
      <h2 id="timeline">${t("job.timeline")}</h2>
      <div class="strip" aria-hidden="true">
        ${states.map(
          (one, i) =>
            html`<i
                key=${i} class=${`seg seg-${one.state}`}
                style=${{ flexGrow: String((lasted[i] ?? 0) / whole) }}
                title=${`${one.label} ${durationText(lasted[i] ?? 0)}`}></i>`,
        )}
      </div>
      <table class="states">
        <caption class="sr">${t("job.timeline")}</caption>
        <thead class="sr">
          <tr>
            <th scope="col">${t("job.state")}</th><th scope="col">${t("job.since")}</th>
            <th scope="col">${t("job.duration")}</th>
          </tr>
        </thead>
        <tbody>
          ${states.map(
            (one, i) => html`<tr key=${i}>
                <td>
                  <${State} state=${one.state} />
                  ${
                    one.attempt &&
                    html` <span class="muted">${t("job.attempt_n", { n: one.attempt.attempt })}</span>`
                  }
                </td>
                <td class="end"><${Time} at=${new Date(one.from).toISOString()} /></td>
                <td class="end">
                  ${
                    one.to !== null && one.to === one.from && i === states.length - 1
                      ? ""
                      : html`<${Duration} ms=${one.to === null ? steadyMs(lasted[i] ?? 0) : lasted[i]} />${one.to === null ? " …" : ""}`
                  }
                </td>
              </tr>`,
          )}
        </tbody>
      </table>
    </section>`;
}

/** @param {unknown} error @returns {string} Where it was raised, as SDK workers report it; "" if it is not reported. */
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

/** @param {{job: JobView}} props The newest first, without what the top of the page already says about it. */
function Attempts({ job }) {
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
                            ? t("state.running")
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
                        ${t("job.worker")} <${Id}
                          id=${one.worker_id} href=${href("workers", { id: one.worker_id })} />
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

/** @param {{title: string, value: unknown, isHidden: boolean, isMissing?: boolean, isRedacted?: boolean, bytes?: number}} props */
function Carried({ title, value, isHidden, isMissing = false, isRedacted = false, bytes }) {
  return html`<section class="card">
      <h2>
        ${title} ${bytes !== undefined && html`<span class="muted small"><${Bytes} value=${bytes} /></span>`}
      </h2>
      ${
        isMissing
          ? html`<p class="muted">${t("job.result.none")}</p>`
          : isHidden
            ? html`<p class="muted">${t("job.hidden")}</p>`
            : isTooLarge(value, bytes ?? 0)
              ? html`<p class="muted">${t("job.too_large", { size: bytesText(bytes ?? 0) })}</p>`
              : html`${isRedacted && html`<p class="muted">${t("job.redacted")}</p>`}<${MaybeSealed} value=${value} label=${title} />`
      }
    </section>`;
}

/** @param {{value: unknown, label: string}} props A value, or the readable part of a sealed value. */
function MaybeSealed({ value, label }) {
  if (!isSealed(value)) return html`<${Value} value=${value} label=${label} />`;
  const { sealed_with: key, sealed: _, ...readable } = value;
  return html`<p class="muted">${t("job.sealed", { key: visible(key) })}</p>
    ${Object.keys(readable).length > 0 && html`<${Value} value=${readable} label=${label} />`}`;
}

const REVIVED = /** @type {const} */ (["jobs", "held", "gone"]);

/** @param {{job: JobView}} props The jobs before and after it in the order of jobs. */
function Order({ job }) {
  const { dependents_count: dependents = 0, revives } = job;
  if (!job.after && dependents === 0) return null;
  return html`<section class="card order" aria-labelledby="order">
      <h2 id="order">${t("job.order")}</h2>
      ${
        job.after &&
        html`<p>${t(`job.after.${job.after.when}`, { count: job.after.jobs.length })}</p>
          <${LinkedJobs} jobs=${job.after.jobs} count=${job.after.jobs.length} />`
      }
      ${
        dependents > 0 &&
        html`<p>${t("job.dependents", { count: dependents })}</p><${LinkedJobs} jobs=${job.dependents ?? []} count=${dependents} />`
      }
      ${REVIVED.filter((what) => (revives?.[what] ?? 0) > 0).map(
        (what) =>
          html`<p key=${what} class=${what === "gone" ? "warning" : "muted"}>${t(`job.revives.${what}`, { count: revives?.[what] ?? 0 })}</p>`,
      )}
    </section>`;
}

/**
 * @param {{job: JobView, path: JobPath, session: import("../../core/api.js").Session}} props
 *   All jobs that are connected with it. The graph is last on the page, so nothing moves when it appears.
 */
function FlowCard({ job, path, session }) {
  const found = useResource((signal) => loadFlow(`${path}/flow`, signal), [job.id], {
    events: ["jobs"],
    leastMs: 2000,
    everyMs: 5000,
  });
  if (!found.data && !found.problem) return null;
  return html`<section class="card after" aria-labelledby="flow">
      <h2 id="flow">${t("flow")}</h2><${ErrorBox} problem=${found.problem} onRetry=${found.reload} />
      ${
        found.data &&
        html`<${Flow} flow=${found.data} current=${job.id} session=${session} onChange=${found.reload} />`
      }
    </section>`;
}

/** Further jobs are folded away. */
const LINKED_AT_ONCE = 8;

/** @param {{jobs: (LinkedJob | PredecessorView)[], count: number}} props `count`: of all jobs; `jobs` may be only the first of them. */
function LinkedJobs({ jobs, count }) {
  const item = (/** @type {LinkedJob | PredecessorView} */ one) =>
    html`<li key=${one.id}>
        <${Id} id=${one.id} href=${href("job", { id: one.id })} /> ${
          one.state && html`<${State} state=${one.state} />`
        }
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

/** @param {{job: JobView, mayOperate: boolean}} props */
function Facts({ job, mayOperate }) {
  const headers = Object.entries(job.headers);
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
        ${
          job.steps &&
          job.steps.length > 0 &&
          html`<dt>${t("job.steps")}</dt>
            <dd>
              <ol class="plain">
                ${job.steps.map(
                  (one, n) =>
                    html`<li key=${n}>
                        <${Text} value=${one.name ?? t("job.hidden")} max=${100} /> <span class="muted">
                          <${Time} at=${one.at} /> · <${Duration} ms=${one.took_s * 1000} />
                        </span>
                      </li>`,
                )}
              </ol>
            </dd>`
        }
        <dt>${t("job.timeout")}</dt><dd><${Duration} ms=${job.timeout * 1000} /></dd>
        <dt>${t("job.created")}</dt><dd><${Time} at=${job.created_at} /></dd>
        <dt>${t("job.due")}</dt><dd><${Time} at=${job.run_at} /></dd>
        ${job.expires_at && html`<dt>${t("job.expires")}</dt><dd><${Time} at=${job.expires_at} /></dd>`}
        <dt>${t("job.keep_result")}</dt><dd>${t(job.keep_result ? "yes" : "no")}</dd>
        ${
          job.worker_id &&
          html`<dt>${t("job.worker")}</dt><dd><${Id} id=${job.worker_id} href=${href("workers", { id: job.worker_id })} /></dd>`
        }
        ${
          job.requires &&
          html`<dt>${t("job.requires")}</dt><dd><${Text} value=${labelsText(job.requires)} max=${200} /></dd>`
        }
        ${
          job.tags.length > 0 &&
          html`<dt>${t("job.tags")}</dt>
            <dd>
              ${job.tags.map(
                (/** @type {string} */ tag) =>
                  html`<a class="chip" href=${href("jobs", { tag })}><${Text} value=${tag} max=${64} /></a> ${
                    mayOperate &&
                    html`<${PauseButton} target=${{ tag }} what=${t("pause.what.tag", { tag: visible(tag) })} /> `
                  }`,
              )}
            </dd>`
        }
        ${
          job.definition &&
          html`<dt>${t("job.definition")}</dt>
            <dd>
              <a href=${href("definitions", { name: job.definition.name })}>
                <${Text} value=${job.definition.name} max=${100} />
              </a> <span class="muted">${t("definitions.due")} <${Time} at=${job.definition.due_at} /></span>
            </dd>`
        }
        ${
          job.batch &&
          html`<dt>${t("job.batch")}</dt><dd><${Id} id=${job.batch} href=${href("batches", { id: job.batch })} /></dd>`
        }
        ${
          job.callback_of &&
          html`<dt>${t("job.callback_of")}</dt>
            <dd>
              <${Id}
                id=${job.callback_of.batch} href=${href("batches", { id: job.callback_of.batch })} /> <span
                class="muted">
                ${tOr(`batches.${job.callback_of.callback}`, visible(job.callback_of.callback))}
              </span>
            </dd>`
        }
        ${
          job.unique &&
          html`<dt>${t("job.unique")}</dt>
            <dd>
              <${Text} value=${job.unique.key ?? t("job.unique_argument")} max=${128} /> <span class="muted">
                ${t(`job.unique.${job.unique.scope}`)}
                ${job.unique.until && html` <${Time} at=${job.unique.until} />`}
                ${job.unique.debounce && ` · ${t("job.debounced")}`}
              </span>
            </dd>`
        }
        ${
          job.links &&
          job.links.length > 0 &&
          html`<dt>${t("job.links")}</dt>
            <dd>
              ${job.links.map(
                (link) =>
                  html`<a key=${link.label} class="chip" href=${link.url} target="_blank" rel="noreferrer"><${Text} value=${link.label} max=${40} /></a> `,
              )}
            </dd>`
        }
        ${
          job.constraints.length > 0 &&
          html`<dt>${t("nav.constraints")}</dt>
            <dd>
              ${job.constraints.map(
                (/** @type {string} */ name) =>
                  html`<a class="chip" href=${href("constraints", { name })}><${Text} value=${name} max=${64} /></a> `,
              )}
            </dd>`
        }
        ${headers.map(
          ([key, value]) =>
            html`<dt><${Text} value=${key} max=${64} /></dt><dd><${Text} value=${value} max=${300} /></dd>`,
        )}
      </dl>
    </section>`;
}

/**
 * @param {{job: JobView, path: JobPath, mayOperate: boolean}} props
 *   What was sent to the job's webhook, and whether it arrived.
 */
function Deliveries({ job, path, mayOperate }) {
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

/** @param {{job: JobView, path: JobPath, mayOperate: boolean}} props What other systems and people were asked. */
function Challenges({ job, path, mayOperate }) {
  const found = useResource((signal) => get(`${path}/challenges`, {}, signal), [job.id, job.state], {
    events: ["jobs"],
    leastMs: 2000,
    everyMs: 5000,
  });
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

/** The names of the values that a person may change, as the API has them. */
const CHANGEABLE = ["priority", "run_at", "max_retry", "timeout"];
/** @param {string} name */
const changeLabel = (name) =>
  name === "run_at" ? inZone(t("job.due")) : t(name === "timeout" ? "job.timeout_s" : `job.${name}`);

/** @param {JobView} job */
const changeable = (job) => ({
  priority: String(job.priority),
  run_at: inputOf(job.run_at),
  max_retry: String(job.max_retry),
  timeout: String(job.timeout),
});

/** @param {{job: JobView, path: JobPath, onClose: () => void, onDone: () => Promise<void>}} props */
function Change({ job, path, onClose, onDone }) {
  useZone();
  const form = useForm(job, changeable);
  const save = async (
    /** @type {import("../../ui/forms.js").Values} */ values,
    /** @type {JobView} */ base,
  ) => {
    const opened = /** @type {import("../../ui/forms.js").Values} */ (changeable(base));
    const changed = CHANGEABLE.filter((name) => values[name] !== opened[name]);
    // A job has no version of its own: read it again to find what others changed.
    const present = /** @type {import("../../ui/forms.js").Values} */ (changeable(await get(path)));
    if (changed.some((name) => present[name] !== opened[name] && present[name] !== values[name]))
      throw new Problem(412, { title: t("form.conflict") });
    const sent = changed.map((name) => [
      name,
      name === "run_at" ? instantIn(values[name] ?? "") : Number(values[name]),
    ]);
    await patch(path, Object.fromEntries(sent));
    await onDone();
    return t("form.saved", {
      what: changed
        .map((name) => `${changeLabel(name)} ${opened[name]} → ${(values[name] ?? "").replace("T", " ")}`)
        .join(", "),
    });
  };
  return html`<${FormDialog}
      title=${t("job.change.title")} form=${form} onClose=${onClose} onSave=${save} reread=${() => get(path)}
      labelOf=${changeLabel}>
      <div class="form-grid">
        <${FormField}
          form=${form} name="priority" label=${changeLabel("priority")} hint=${t("job.priority.hint")}
          type="number" step="1" required />
        <${FormField}
          form=${form} name="run_at" label=${changeLabel("run_at")} type="datetime-local" step="1"
          max=${LATEST} />
        <${FormField}
          form=${form} name="max_retry" label=${changeLabel("max_retry")} type="number" min="0" max="1000"
          step="1" required />
        <${FormField}
          form=${form} name="timeout" label=${changeLabel("timeout")} type="number" min="0.001" step="any"
          required />
      </div>
    <//>`;
}
