/** One definition: when it is due, what became of its instants, the job that it starts. */
import { html, useState } from "./lib.js";
import { get, may } from "./api.js";
import { ComingTable, useComing } from "./definition_coming.js";
import { askAbout, resumeDefinition } from "./definition_dialogs.js";
import { DefinitionEditor } from "./definition_editor.js";
import { Lateness, Outcome, RunJob, RunStrip, STRIP } from "./definition_runs.js";
import { startText } from "./definition_schedules.js";
import { curl } from "./curl.js";
import { t } from "./i18n.js";
import { useResource } from "./live.js";
import { href } from "./router.js";
import { visible } from "./text.js";
import { Button, Copy, Empty, ErrorBox, Loading, Pager } from "./ui/controls.js";
import { Badge, Duration, Num, Text, Time } from "./ui/formats.js";
import { Field } from "./ui/forms.js";
import { NewRows, Table, useHold, useSteadyRows } from "./ui/tables.js";
import { useTitle } from "./ui/titles.js";
import { Value } from "./ui/values.js";
import { Changes } from "./changes.js";

const COMING = 10;
const PAGE = 30;
const OUTCOMES = ["", "fired", "skipped", "missed"];
/** What a request holds of what the API shows. */
const FIELDS = [
  "enabled",
  "reason",
  "description",
  "overlap",
  "schedule",
  "time_zone",
  "starts_at",
  "ends_at",
  "jitter_s",
  "skip_late_after_s",
  "catch_up",
  "max_catch_up",
];
const JOB_FIELDS = [
  "name",
  "argument",
  "priority",
  "max_retry",
  "keep_result",
  "timeout",
  "retry",
  "rerun_lost",
  "tags",
  "headers",
];

/** What definitions of all kinds have, or those of kind time alone. */
const COMMON = new Set([
  ...FIELDS,
  "name",
  "kind",
  "job",
  "next_due_at",
  "queued_at",
  "last_run",
  "runs",
  "etag",
  "created_by",
  "created_at",
  "changed_at",
]);

/** @param {any} one */
const isTime = (one) => one.kind === "time";

/** @param {any} one @param {string[]} fields @returns {any} */
const only = (one, fields) => Object.fromEntries(fields.map((field) => [field, one[field]]));

/** @param {{name: string, query: Record<string, string>, go: typeof import("./router.js").go, session: import("./api.js").Session}} props */
export function Definition({ name, query, go, session }) {
  const path = `api/definitions/${encodeURIComponent(name)}`;
  const [isEditing, setEditing] = useState(false);
  useTitle(name);
  const found = useResource((signal) => get(path, {}, signal), [name], {
    events: ["definitions", "jobs"],
    leastMs: 2000,
    everyMs: 5000,
  });
  const one = found.data;
  if (!one) {
    if (found.problem?.status === 404)
      return html`<h1>${t("nav.definitions")}</h1><div class="card"><${Empty} title=${t("definitions.unknown")}><p><a href=${href("definitions")}>${t("nav.definitions")}</a></p><//></div>`;
    return html`<h1>${t("nav.definitions")}</h1><${ErrorBox} problem=${found.problem} onRetry=${found.reload} />${!found.problem && html`<${Loading} />`}`;
  }
  const mayOperate = may(session, "operate");
  const ask = (/** @type {"pause" | "run" | "delete" | "backfill"} */ what) => () =>
    askAbout({ what, name, onDone: found.reload });
  const body = () => ({ ...only(one, FIELDS), job: only(one.job, JOB_FIELDS) });
  return html`<p class="crumbs"><a href=${href("definitions")}>${t("nav.definitions")}</a></p>
    <div class="page-head job-head"><h1>${visible(one.name)}</h1><span>${!one.enabled && html`<${Badge} kind="warn">${t("enqueue.paused")}<//>`}</span></div>
    <${ErrorBox} problem=${found.problem} onRetry=${found.reload} />
    ${
      mayOperate &&
      html`<div class="row actions" role="group" aria-label=${t("job.actions")}>${isTime(one) && html`<${Button} opensDialog kind="primary" onClick=${() => setEditing(true)}>${t("definitions.edit")}<//>`}
      ${one.enabled ? html`<${Button} opensDialog onClick=${ask("pause")}>${t("constraints.pause")}<//>` : html`<${Button} onClick=${() => resumeDefinition(name, found.reload)}>${t("constraints.unpause")}<//>`}
      <${Button} opensDialog onClick=${ask("run")}>${t("definitions.run")}<//>
      ${isTime(one) && html`<${Button} opensDialog onClick=${ask("backfill")}>${t("definitions.backfill")}<//>`}
      ${isTime(one) && !one.job.argument_hidden && html`<${Copy} label=${t("copy.curl")} text=${() => curl(session, "PUT", path, { body: body() })} />`}
      <${Button} opensDialog kind="danger" onClick=${ask("delete")}>${t("action.delete")}<//></div>`
    }
    <div class="job-grid"><div class="stack"><${Facts} one=${one} mayOperate=${mayOperate} /><${Job} job=${one.job} /></div>
      ${isTime(one) ? html`<${Coming} one=${one} />` : html`<${Others} one=${one} />`}</div>
    <${Runs} one=${one} query=${query} go=${go} />
    ${mayOperate && html`<${Changes} name=${one.name} etag=${one.etag} />`}
    ${isEditing && html`<${DefinitionEditor} definition=${one} onClose=${() => setEditing(false)} onDone=${found.reload} />`}`;
}

/** @param {{one: any, mayOperate: boolean}} props */
function Facts({ one, mayOperate }) {
  return html`<section class="card"><h2>${t("definitions.when")}</h2><dl class="facts">
    ${one.description && html`<dt>${t("definitions.form.description")}</dt><dd><${Text} value=${one.description} max=${300} isBlock /></dd>`}
    ${!one.enabled && one.reason && html`<dt>${t("pause.reason")}</dt><dd><${Text} value=${one.reason} max=${500} /></dd>`}
    <dt>${t("definitions.schedule")}</dt><dd>${startText(one)}</dd>
    ${isTime(one) && html`<dt>${t("definitions.next_due")}</dt><dd>${one.next_due_at ? html`<${Time} at=${one.next_due_at} />` : t("definitions.never_again")}</dd>`}
    ${one.queued_at && html`<dt>${t("definitions.queued")}</dt><dd><${Time} at=${one.queued_at} /></dd>`}
    <dt>${t("definitions.last_run")}</dt><dd>${one.last_run ? html`<${Time} at=${one.last_run.due_at} /> <${Outcome} run=${one.last_run} />` : html`<${Num} value=${null} />`}</dd>
    <dt>${t("definitions.form.overlap")}</dt><dd>${t(`definitions.overlap.${one.overlap}`)}</dd>
    ${isTime(one) && html`<dt>${t("definitions.form.catch_up")}</dt><dd>${t(`definitions.catch_up.${one.catch_up}`)} <span class="muted">${t("definitions.late_after")} <${Duration} ms=${one.skip_late_after_s * 1000} /></span></dd>`}
    ${one.jitter_s > 0 && html`<dt>${t("definitions.form.jitter_s")}</dt><dd><${Duration} ms=${one.jitter_s * 1000} /></dd>`}
    ${one.starts_at && html`<dt>${t("definitions.form.starts_at")}</dt><dd><${Time} at=${one.starts_at} /></dd>`}
    ${one.ends_at && html`<dt>${t("definitions.form.ends_at")}</dt><dd><${Time} at=${one.ends_at} /></dd>`}
    ${one.created_by && html`<dt>${t("pause.by")}</dt><dd><${Text} value=${one.created_by} max=${80} /></dd>`}
    <dt>${t("constraints.changed")}</dt><dd><${Time} at=${one.changed_at} />${mayOperate && html` · <a href=${href("audit", { target: one.name })}>${t("nav.audit")}</a>`}</dd></dl></section>`;
}

/** @param {{job: any}} props */
function Job({ job }) {
  const isTooLarge = job.argument === null && job.argument_bytes > 1;
  return html`<section class="card"><h2>${t("nav.job")}</h2><dl class="facts"><dt>${t("job.name")}</dt><dd><a href=${href("names", { name: job.name })}><${Text} value=${job.name} max=${100} /></a></dd>
      <dt>${t("job.timeout")}</dt><dd><${Duration} ms=${job.timeout * 1000} /></dd><dt>${t("job.max_retry")}</dt><dd><${Num} value=${job.max_retry} /></dd><dt>${t("job.priority")}</dt><dd><${Num} value=${job.priority} /></dd>
      ${job.tags.length > 0 && html`<dt>${t("job.tags")}</dt><dd>${job.tags.map((/** @type {string} */ tag) => html`<span key=${tag} class="chip"><${Text} value=${tag} max=${64} /></span> `)}</dd>`}</dl>
    <h3>${t("job.argument")}</h3>${job.argument_hidden || isTooLarge ? html`<p class="muted">${t("job.hidden")}</p>` : html`<${Value} value=${job.argument} label=${t("job.argument")} />`}</section>`;
}

/** @param {{one: any}} props */
function Coming({ one }) {
  const times = only(one, ["schedule", "time_zone", "starts_at", "ends_at", "jitter_s"]);
  // From the last that has its record: what is due now is still to come.
  const coming = useComing({ ...times, name: one.name, count: COMING }, one.next_due_at);
  const label = t("definitions.next", { count: COMING });
  return html`<section class="card coming-card"><h2>${label}</h2>
    ${!one.enabled && html`<p class="muted">${t("definitions.next.paused")}</p>`}<${ComingTable} coming=${coming} zone=${one.time_zone} jitterMs=${one.jitter_s * 1000} label=${label} /></section>`;
}

/** @param {{one: any}} props A definition of another kind: what is of that kind alone, as the API has it. */
function Others({ one }) {
  const own = Object.keys(one).filter((field) => !COMMON.has(field) && one[field] !== null);
  return html`<section class="card"><h2>${t("definitions.when")}</h2><${Value} value=${only(one, own)} label=${t("definitions.when")} /></section>`;
}

/** @param {any} run */
const dueOf = (run) => `${run.due_at} ${run.event_id ?? ""}`;

/** @param {{one: any, query: Record<string, string>, go: typeof import("./router.js").go}} props */
function Runs({ one, query, go }) {
  const hold = useHold();
  const outcome = OUTCOMES.includes(query["outcome"] ?? "") ? query["outcome"] : "";
  const path = /** @type {"api/definitions/{name}/runs"} */ (
    `api/definitions/${encodeURIComponent(one.name)}/runs`
  );
  const of = JSON.stringify([one.name, outcome, query["cursor"]]);
  const found = useResource(
    (signal) => get(path, { outcome, cursor: query["cursor"], limit: PAGE }, signal),
    [of],
    { events: ["definitions", "jobs"], leastMs: 2000, everyMs: 5000 },
  );
  const [shownOf, setShownOf] = useState(of);
  if (!found.isLoading && shownOf !== of) setShownOf(of);
  const { rows, newCount, showNew } = useSteadyRows(found.data?.runs ?? [], dueOf, hold.isHeld, shownOf);
  const change = (/** @type {Record<string, string | null>} */ changes) =>
    go("definitions", { name: one.name, outcome, ...changes });
  const isWhole = !outcome && !query["cursor"];
  return html`<section class="card after"><div class="page-head"><h2>${t("definitions.runs")}</h2>${isWhole && found.data && html`<${RunStrip} runs=${found.data.runs.slice(0, STRIP)} />`}
      <${Field} label=${t("definitions.outcome")}>${(/** @type {any} */ a) => html`<select ...${a} value=${outcome} onChange=${(/** @type {any} */ e) => change({ outcome: e.target.value })}>${OUTCOMES.map((key) => html`<option key=${key} value=${key}>${t(key ? `definitions.outcome.${key}` : "definitions.state.all")}</option>`)}</select>`}<//></div>
    <${ErrorBox} problem=${found.problem} onRetry=${found.reload} />
    ${
      !found.data
        ? html`<${Loading} isLoading=${!found.problem} />`
        : html`<${NewRows} count=${newCount} onShow=${showNew} /><div ...${hold.bind}><${Table} isFixed caption=${t("definitions.runs")} rows=${rows} rowKey=${dueOf} columns=${RUN_COLUMNS.map((column) => ({ ...column, label: t(column.label) }))} empty=${html`<p class="muted">${t("definitions.no_runs")}</p>`} /></div>`
    }
    <${Pager} hasNext=${Boolean(found.data?.next_cursor)} hasBefore=${Boolean(query["cursor"])} isLoading=${found.isLoading} onNext=${() => change({ cursor: found.data?.next_cursor ?? null })} onFirst=${() => change({})} /></section>`;
}

/** @type {(import("./ui/tables.js").Column & {label: string})[]} */
const RUN_COLUMNS = [
  {
    key: "due",
    label: "definitions.due",
    width: 11,
    render: (run) => html`<${Time} at=${run.due_at} />`,
  },
  { key: "outcome", label: "definitions.outcome", render: (run) => html`<${Outcome} run=${run} />` },
  {
    key: "late",
    label: "definitions.lateness",
    align: "end",
    width: 7,
    priority: 2,
    render: (run) => html`<${Lateness} run=${run} />`,
  },
  { key: "job", label: "nav.job", render: (run) => html`<${RunJob} run=${run} />` },
];
