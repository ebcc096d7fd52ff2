/** One job: its outcome, why it waits, its content, and the actions of operators. */
import { html, useEffect, useState } from "../../core/lib.js";
import { del, get, may, post, toJson } from "../../core/api.js";
import { curl } from "../../core/curl.js";
import { t, tOr } from "../../core/i18n.js";
import { useResource } from "../../core/resource.js";
import { JobLog } from "../../logs/job_log.js";
import { href } from "../../core/router.js";
import { admits, isIn } from "../../core/states.js";
import { visible } from "../../core/text.js";
import { Button, Copy, CopyMenu, Empty, ErrorBox, Loading } from "../../ui/controls.js";
import { ConfirmCount, attempt, toast } from "../../ui/dialogs.js";
import { State, Text, tellTime } from "../../ui/formats.js";
import { useProgress } from "../../ui/progress.js";
import { useTitle } from "../../ui/titles.js";
import { useWorkerNames } from "../../workers/worker_link.js";
import { isIncomplete, specOf, uniqueOf } from "../job_spec.js";
import { Why } from "../why_card.js";
import { Attempts, LastWord, isTold } from "../attempts.js";
import { Timeline } from "../timeline.js";
import { Carried, noResultText } from "../carried.js";
import { FlowCard, Order, useFlow } from "../job_order.js";
import { Facts } from "../job_facts.js";
import { Challenges, Deliveries, useChallenges } from "../asked.js";
import { Change } from "../change_dialog.js";

/** @typedef {import("../../../answers").Schemas["JobView"]} JobView */
/** @typedef {import("../../core/api.js").Session} Session */

/** @param {JobView} job @returns {string[]} The IDs of the job's workers, the latest first. */
const workersOf = (job) =>
  [job.worker_id, ...job.attempts.map((one) => one.worker_id).reverse()].filter((id) => id !== null);

/** @param {{query: Record<string, string>, go: typeof import("../../core/router.js").go, session: Session}} props */
export function Page({ query, go, session }) {
  const id = query["id"] ?? "";
  const path = /** @type {const} */ (`api/jobs/${encodeURIComponent(id)}`);
  const { found, job, why } = useJob(id, path);
  const isOver = job !== null && isIn(job.state, "finished");
  const challenges = useChallenges(job, path);
  const flow = useFlow(job, path);
  const workerNames = useWorkerNames(job ? workersOf(job) : []);
  const [dialog, setDialog] = useState("");

  if (!job) return html`<${NoJob} id=${id} path=${path} found=${found} session=${session} />`;
  const again = async () => {
    await found.reload();
  };
  const mayOperate = may(session, "operate");
  return html`<${Head} job=${job} session=${session} />
    <${ErrorBox} problem=${found.problem} />
    <${Actions} job=${job} session=${session} path=${path} onAsk=${setDialog} onDone=${again} />
    ${
      !isOver &&
      html`<${Why}
          why=${why} job=${job} flow=${flow.data} challenges=${challenges.data?.challenges ?? []}
          mayOperate=${mayOperate} onAnswered=${challenges.reload} />`
    }
    ${isTold(job) && html`<${LastWord} job=${job} flow=${flow.data} />`}
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
        <${Challenges} found=${challenges} mayOperate=${mayOperate} />
        <${Attempts} job=${job} workerNames=${workerNames} />
      </div>
      <div class="stack">
        <${Content} job=${job} />
        <${Order} job=${job} flow=${flow.data} />
        <${Facts} job=${job} mayOperate=${mayOperate} workerNames=${workerNames} />
        ${job.notify && html`<${Deliveries} job=${job} path=${path} mayOperate=${mayOperate} />`}
      </div>
    </div>
    ${job.attempt > 0 && html`<${JobLog} key=${job.id} path=${path} mayErase=${mayOperate && isOver} />`}
    ${
      (job.after || (job.dependents_count ?? 0) > 0) &&
      html`<${FlowCard} key=${job.id} job=${job} found=${flow} session=${session} />`
    }
    <${Question} asked=${dialog} job=${job} path=${path} go=${go} onClose=${() => setDialog("")} onDone=${again} />`;
}

/**
 * Load the job of the page, and the reasons why it does not run.
 * @param {string} id
 * @param {`api/jobs/${string}`} path
 */
function useJob(id, path) {
  const found = useResource((signal) => (id ? get(path, {}, signal) : Promise.resolve(null)), [id], {
    events: ["jobs"],
    leastMs: 1000,
    everyMs: 3000,
    // Poll, because no event announces changes by the application that pushed the job: they are not in the audit log.
    pollMs: 5000,
  });
  useTitle(
    found.data
      ? `${tOr(`state.${found.data.state}`, found.data.state)} · ${found.data.name} · …${id.slice(-6)}`
      : null,
  );
  const job = found.data?.id === id ? found.data : null;
  useProgress(job ? [job] : [], false, found.reload);
  const isWaited = job !== null && !isIn(job.state, "finished");
  const why = useResource(
    (signal) => (isWaited ? get(`${path}/why`, {}, signal) : Promise.resolve(null)),
    [id, job?.state],
    { events: ["jobs", "workers", "masters", "constraints"], leastMs: 1500, everyMs: 4000 },
  );
  useEffect(() => {
    if (why.data) tellTime(why.data.as_of);
  }, [why.data?.as_of]);
  return { found, job, why };
}

/**
 * The page for a job that is unknown, or not loaded yet.
 * @param {{id: string, path: `api/jobs/${string}`, found: {problem: import("../../core/api.js").Problem | null, reload: () => unknown},
 *   session: Session}} props
 */
function NoJob({ id, path, found, session }) {
  if (!id)
    return html`<h1>${t("nav.job")}</h1><p>${t("job.no_id")} <a href=${href("jobs")}>${t("nav.jobs")}</a></p>`;
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

/** @param {{job: JobView, session: Session}} props */
function Head({ job, session }) {
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
    </div>`;
}

/**
 * @param {{job: JobView, session: Session, path: `api/jobs/${string}`, onAsk: (dialog: string) => void, onDone: () => unknown}} props
 */
function Actions({ job, session, path, onAsk, onDone }) {
  const act = (/** @type {string} */ name) =>
    // Name the attempt in a retry, so that a double click or an outdated page does not run the job twice.
    attempt(
      () => post(`${path}/${name}`, name === "retry" ? { attempt: job.attempt } : undefined),
      t(`job.${name}.done`),
    ).then(onDone);
  const mayOperate = may(session, "operate");
  return html`<div class="row actions" role="group" aria-label=${t("job.actions")}>
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
        html`<${Button} opensDialog onClick=${() => onAsk("change")}>${t("job.change")}<//>`
      }
      ${
        may(session, "push") &&
        !job.argument_hidden &&
        html`<a class="button as-link" href=${href("enqueue", { from: job.id })}>${t("job.again")}</a>`
      }
      ${
        may(session, "push") &&
        admits(job.state, "cancel") &&
        html`<${Button} opensDialog kind="danger" onClick=${() => onAsk("cancel")}>${t("job.cancel")}<//>`
      }
      ${
        mayOperate &&
        admits(job.state, "delete") &&
        html`<${Button} opensDialog kind="danger" onClick=${() => onAsk("delete")}>${t("job.delete")}<//>`
      }
    </div>`;
}

/** @param {{job: JobView}} props The argument and the result of the job. */
function Content({ job }) {
  return html`<${Carried}
      title=${t("job.argument")} value=${job.argument} isHidden=${job.argument_hidden}
      isRedacted=${job.argument_redacted} bytes=${job.argument_bytes} />
    ${
      (job.has_result || job.keep_result) &&
      html`<${Carried} title=${t("job.result")} value=${job.result} isHidden=${job.result_hidden} missing=${job.has_result ? "" : noResultText(job)} />`
    }`;
}

/**
 * The dialog of an action.
 * @param {{asked: string, job: JobView, path: `api/jobs/${string}`, go: typeof import("../../core/router.js").go, onClose: () => void,
 *   onDone: () => Promise<void>}} props
 */
function Question({ asked, job, path, go, onClose, onDone }) {
  const cancel = async () => {
    await post(`${path}/cancel`);
    await onDone();
  };
  const remove = async () => {
    await del(path);
    toast(t("job.deleted", { name: visible(job.name) }));
    go("jobs", {});
  };
  switch (asked) {
    case "change":
      return html`<${Change} job=${job} path=${path} onClose=${onClose} onDone=${onDone} />`;
    case "cancel":
      return html`<${ConfirmCount} title=${t("job.cancel.title")} count=${1} verb=${t("job.cancel")} onClose=${onClose} onConfirm=${cancel}>
        <p>${t(job.state === "running" ? "job.cancel.running" : "job.cancel.text")}</p><//>`;
    case "delete":
      return html`<${ConfirmCount} title=${t("job.delete.title")} count=${1} verb=${t("job.delete")} onClose=${onClose} onConfirm=${remove}>
        <p>${t("job.delete.text")}</p><//>`;
    default:
      return null;
  }
}
