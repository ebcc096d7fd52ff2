/** One definition: its trigger, its job, and the outcomes of its instants or events. */
import { html, useState } from "../core/lib.js";
import { Problem, get, may, toJson } from "../core/api.js";
import { ComingTable, useComing } from "./coming.js";
import { askAbout, resumeDefinition } from "./dialogs.js";
import { DefinitionEditor } from "./editor.js";
import { Lateness, Outcome, RunJob, RunStrip, STRIP, Unserved, reasonText } from "./runs.js";
import { startText } from "./schedules.js";
import { SendEvent } from "../events/dialogs.js";
import { gatheringText } from "../events/trigger.js";
import { EventsTable } from "../events/trigger_form.js";
import { curl } from "../core/curl.js";
import { t } from "../core/i18n.js";
import { labelsText } from "../workers/labels.js";
import { useResource } from "../core/resource.js";
import { href } from "../core/router.js";
import { RuleText } from "../matching/rule_builder.js";
import { visible } from "../core/text.js";
import { Absent } from "../ui/absent.js";
import { Button, Copy, ErrorBox, Loading, Pager } from "../ui/controls.js";
import { FilterChoice } from "../ui/filters.js";
import { Badge, Duration, Id, Num, State, Text, Time } from "../ui/formats.js";
import { NewRows, Table, useHold, useSteadyRows } from "../ui/tables.js";
import { useTitle } from "../ui/titles.js";
import { Value } from "../ui/values.js";
import { Changes } from "../identity/changes.js";
import { verdictText } from "../jobs/verdicts.js";
import { RunbookLink } from "../operations/runbook_link.js";
import { useServed } from "../workers/served.js";
import { whoText } from "../identity/value_words.js";

/** @typedef {import("../../answers").Schemas["RunView"]} RunView */

/** @typedef {import("../../answers").Schemas["DefinitionView"]} Definition */

const COMING = 10;
const PAGE = 30;
const OUTCOMES = ["", "fired", "skipped", "missed"];
/** The fields of the API's answer that a request may contain, first for every definition, then for each kind. */
const FIELDS = ["kind", "enabled", "reason", "description", "overlap"];
const TIME_FIELDS = [
  "schedule",
  "time_zone",
  "starts_at",
  "ends_at",
  "jitter_s",
  "skip_late_after_s",
  "catch_up",
  "max_catch_up",
  "days",
];
const EVENT_FIELDS = ["event_type", "matcher", "argument", "debounce", "collect"];
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
  "requires",
  "expires_s",
];

/** @param {Definition} one */
const isTime = (one) => one.kind === "time";

/** @param {Record<string, unknown>} one @param {string[]} fields @returns {Record<string, unknown>} */
const only = (one, fields) => Object.fromEntries(fields.map((field) => [field, one[field]]));

/** @typedef {{like: import("../events/dialogs.js").Like}} Sending A test event. */

/** @param {{name: string, query: Record<string, string>, go: typeof import("../core/router.js").go, session: import("../core/api.js").Session}} props */
export function Definition({ name, query, go, session }) {
  const path = /** @type {const} */ (`api/definitions/${encodeURIComponent(name)}`);
  const [isEditing, setEditing] = useState(false);
  const [sending, setSending] = useState(/** @type {Sending | null} */ (null));
  useTitle(name);
  const found = useResource((signal) => get(path, {}, signal), [name], {
    events: ["definitions", "events", "jobs"],
    leastMs: 2000,
    everyMs: 5000,
  });
  const one = found.data;
  if (!one) return html`<${Absent} page="definitions" title=${t("definitions.unknown")} found=${found} />`;
  const mayOperate = may(session, "operate");
  return html`<p class="crumbs"><a href=${href("definitions")}>${t("nav.definitions")}</a></p>
    <div class="page-head job-head">
      <h1>${visible(one.name)}</h1>
      <span>${!one.enabled && html`<${Badge} kind="warn">${t("enqueue.paused")}<//>`}</span>
    </div>
    <${ErrorBox} problem=${found.problem} onRetry=${found.reload} />
    ${
      mayOperate &&
      html`<${Actions} one=${one} path=${path} session=${session} onEdit=${() => setEditing(true)} onSend=${setSending} onDone=${found.reload} />`
    }
    <${Skips} one=${one} />
    <div class="job-grid">
      <div class="stack">
        <${Facts} one=${one} mayOperate=${mayOperate} /><${Job} job=${one.job} made=${one.argument} />
      </div>
      ${isTime(one) ? html`<${Coming} one=${one} />` : html`<${NewestEvents} one=${one} />`}
    </div>
    <${Runs} one=${one} query=${query} go=${go} />
    ${mayOperate && html`<${Changes} name=${one.name} etag=${one.etag} />`}
    ${
      isEditing &&
      html`<${DefinitionEditor} definition=${one} onClose=${() => setEditing(false)} onDone=${found.reload} />`
    }
    ${sending && html`<${SendEvent} like=${sending.like} onClose=${() => setSending(null)} />`}`;
}

/**
 * @param {{one: Definition, path: `api/definitions/${string}`, session: import("../core/api.js").Session, onEdit: () => void,
 *   onSend: (sending: Sending) => void, onDone: () => Promise<void>}} props
 */
function Actions({ one, path, session, onEdit, onSend, onDone }) {
  const { name } = one;
  const ask = (/** @type {"pause" | "run" | "delete" | "backfill"} */ what) => () =>
    askAbout({ what, name, onDone });
  const body = () => ({
    ...only(one, [...FIELDS, ...(isTime(one) ? TIME_FIELDS : EVENT_FIELDS)]),
    job: only(one.job, JOB_FIELDS),
  });
  return html`<div class="row actions" role="group" aria-label=${t("job.actions")}>
          <${Button} opensDialog kind="primary" onClick=${onEdit}>${t("definitions.edit")}<//>
          ${
            one.enabled
              ? html`<${Button} opensDialog onClick=${ask("pause")}>${t("constraints.pause")}<//>`
              : html`<${Button} onClick=${() => resumeDefinition(name, onDone)}>${t("constraints.unpause")}<//>`
          }
          ${isTime(one) && html`<${Button} opensDialog onClick=${ask("run")}>${t("definitions.run")}<//>`}
          ${
            isTime(one) &&
            html`<${Button} opensDialog onClick=${ask("backfill")}>${t("definitions.backfill")}<//>`
          }
          ${
            !isTime(one) &&
            may(session, "push") &&
            html`<${Button} opensDialog onClick=${async () => onSend({ like: await newestLike(one.event_type ?? "") })}>${t("events.send_test")}<//>`
          }
          ${
            !one.job.argument_hidden &&
            html`<${Copy} label=${t("copy.curl")} text=${() => curl(session, "PUT", path, { body: body() })} />`
          }
          <${Button} opensDialog kind="danger" onClick=${ask("delete")}>${t("action.delete")}<//>
        </div>`;
}

/**
 * @param {string} type May be a pattern.
 * @returns {Promise<import("../events/dialogs.js").Like>} The newest event of this type, with which the form of a test
 *   event is filled.
 */
async function newestLike(type) {
  const none = /[*?[]/.test(type) ? null : { event_type: type };
  try {
    const [newest] = (await get("api/events", { type, limit: 1 })).events;
    if (!newest) return none;
    const { event_type, payload, payload_hidden, payload_redacted, payload_bytes } = newest;
    const isWhole = !payload_hidden && !payload_redacted && (payload !== null || payload_bytes <= 1);
    return isWhole ? { event_type, payload } : { event_type };
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    return none;
  }
}

/** @param {{one: Definition}} props Why the definition skips its instants, so that it starts no jobs. */
function Skips({ one }) {
  const isSkipped = one.enabled && one.last_run?.outcome === "skipped";
  const { data } = useResource(
    (signal) =>
      isSkipped
        ? get(`api/definitions/${encodeURIComponent(one.name)}/why`, {}, signal)
        : Promise.resolve(null),
    [one.name, isSkipped, one.last_run?.due_at],
    { events: ["jobs"], leastMs: 3000 },
  );
  const waits = data?.job_id && data.job_state !== "running" ? data.job_id : null;
  const why = useResource(
    (signal) =>
      waits ? get(`api/jobs/${encodeURIComponent(waits)}/why`, {}, signal) : Promise.resolve(null),
    [waits],
    { events: ["jobs", "workers", "constraints"], leastMs: 3000 },
  );
  if (!data || data.skipped_in_a_row === 0) return null;
  const verdict = why.data?.verdicts[0];
  return html`<section class=${`fault ${data.is_fault ? "warn" : "info"}`} aria-label=${t("definitions.why")}>
      <${Badge} kind=${data.is_fault ? "warn" : "info"}>${t(data.is_fault ? "fault.warn" : "fault.info")}<//>
      <span class="fault-text">
        ${t("definitions.why.skips", { count: data.skipped_in_a_row, reason: reasonText(data.reason ?? "") })}
        ${
          data.job_id &&
          html` ${t("definitions.why.waits")} <${Id}
              id=${data.job_id} href=${href("job", { id: data.job_id })} /> ${
                data.job_state && html`<${State} state=${data.job_state} />`
              }`
        }
        ${why.data && verdict && html` · <${Text} value=${verdictText(verdict, why.data)} max=${300} />`}
        ${data.next_due_at && html` · ${t("definitions.next_due")}: <${Time} at=${data.next_due_at} />`}
      </span>
      ${data.is_fault && html`<${RunbookLink} code="skipping_definition" />`}
    </section>`;
}

/** @param {{one: Definition, mayOperate: boolean}} props */
function Facts({ one, mayOperate }) {
  return html`<section class="card">
      <h2>${t(isTime(one) ? "definitions.when" : "events.starts")}</h2>
      <dl class="facts">
        ${
          one.description &&
          html`<dt>${t("definitions.form.description")}</dt><dd><${Text} value=${one.description} max=${300} isBlock /></dd>`
        }
        ${
          !one.enabled &&
          one.reason &&
          html`<dt>${t("pause.reason")}</dt><dd><${Text} value=${one.reason} max=${500} /></dd>`
        }
        <dt>${t(isTime(one) ? "definitions.schedule" : "events.which")}</dt><dd>${startText(one)}</dd>
        ${
          isTime(one) &&
          html`<dt>${t("definitions.next_due")}</dt><dd>${one.next_due_at ? html`<${Time} at=${one.next_due_at} />` : t("definitions.never_again")}</dd>`
        }
        ${
          one.days &&
          html`<dt>${t("definitions.form.days_rule")}</dt>
            <dd>
              ${t(`definitions.days_rule.${one.days.rule}`)} · <a
                href=${href("calendars", { name: one.days.calendar })}>
                ${visible(one.days.calendar)}
              </a>
              ${
                one.calendar_ends_at &&
                html` <span class="muted">${t("calendars.covers_until")} ${one.calendar_ends_at}</span>`
              }
            </dd>`
        }
        ${!isTime(one) && html`<${Trigger} one=${one} />`}
        ${one.queued_at && html`<dt>${t("definitions.queued")}</dt><dd><${Time} at=${one.queued_at} /></dd>`}
        <dt>${t("definitions.last_run")}</dt>
        <dd>
          ${
            one.last_run
              ? html`<${Time} at=${one.last_run.due_at} isPast /> <${Outcome} run=${one.last_run} />`
              : html`<${Num} value=${null} />`
          }
        </dd>
        <dt>${t("definitions.form.overlap")}</dt><dd>${t(`definitions.overlap.${one.overlap}`)}</dd>
        <${Bounds} one=${one} />
        ${
          one.created_by &&
          html`<dt>${t("pause.by")}</dt><dd title=${visible(one.created_by)}>${visible(whoText(one.created_by))}</dd>`
        }
        <dt>${t("constraints.changed")}</dt>
        <dd>
          <${Time} at=${one.changed_at} />
          ${mayOperate && html` · <a href=${href("audit", { target: one.name })}>${t("nav.audit")}</a>`}
        </dd>
      </dl>
    </section>`;
}

/** @param {{one: Definition}} props The period in which the definition is active, and how late its instants may fire. */
function Bounds({ one }) {
  return html`${
    isTime(one) &&
    html`<dt>${t("definitions.form.catch_up")}</dt>
            <dd>
              ${t(`definitions.catch_up.${one.catch_up}`)} <span class="muted">
                ${t("definitions.late_after")} <${Duration} ms=${one.skip_late_after_s * 1000} />
              </span>
            </dd>`
  }
        ${
          one.jitter_s > 0 &&
          html`<dt>${t("definitions.form.jitter_s")}</dt><dd><${Duration} ms=${one.jitter_s * 1000} /></dd>`
        }
        ${
          one.starts_at &&
          html`<dt>${t("definitions.form.starts_at")}</dt><dd><${Time} at=${one.starts_at} /></dd>`
        }
        ${
          one.ends_at && html`<dt>${t("definitions.form.ends_at")}</dt><dd><${Time} at=${one.ends_at} /></dd>`
        }`;
}

/** @param {{job: Definition["job"], made: unknown}} props `made`: how events make the argument; null if they do not make it. */
function Job({ job, made }) {
  const isTooLarge = job.argument === null && job.argument_bytes > 1;
  return html`<section class="card">
      <h2>${t("nav.job")}</h2>
      <dl class="facts">
        <dt>${t("job.name")}</dt>
        <dd><a href=${href("names", { name: job.name })}><${Text} value=${job.name} max=${100} /></a></dd>
        <dt>${t("job.timeout")}</dt><dd><${Duration} ms=${job.timeout * 1000} /></dd>
        <dt>${t("job.max_retry")}</dt><dd><${Num} value=${job.max_retry} /></dd><dt>${t("job.priority")}</dt>
        <dd><${Num} value=${job.priority} /></dd>
        ${
          job.expires_s &&
          html`<dt>${t("job.expires")}</dt><dd><${Duration} ms=${job.expires_s * 1000} /></dd>`
        }
        ${
          job.requires &&
          html`<dt>${t("job.requires")}</dt><dd><${Text} value=${labelsText(job.requires)} max=${200} /></dd>`
        }
        ${
          job.tags.length > 0 &&
          html`<dt>${t("job.tags")}</dt><dd>${job.tags.map((tag) => html`<span key=${tag} class="chip"><${Text} value=${tag} max=${64} /></span> `)}</dd>`
        }
      </dl>
      <h3>${t("job.argument")}</h3>
      ${
        job.argument_hidden || isTooLarge
          ? html`<p class="muted">${t("job.hidden")}</p>`
          : html`<${Value} value=${made ?? job.argument} label=${t("job.argument")} />`
      }
    </section>`;
}

/** @param {{one: Definition}} props */
function Coming({ one }) {
  const times = only(one, ["schedule", "time_zone", "starts_at", "ends_at", "jitter_s"]);
  // Count from the last instant that has a record, so that the list includes an instant that is due now.
  const coming = useComing(toJson({ ...times, name: one.name, count: COMING }), one.next_due_at);
  const label = t("definitions.next", { count: COMING });
  return html`<section class="card coming-card">
      <h2>${label}</h2>
      ${!one.enabled && html`<p class="muted">${t("definitions.next.paused")}</p>`}
      <${ComingTable} coming=${coming} zone=${one.time_zone} jitterMs=${one.jitter_s * 1000} label=${label} />
    </section>`;
}

/** @param {{one: Definition}} props Which events start the job, and how. */
function Trigger({ one }) {
  const gathering = gatheringText(one);
  return html`${one.matcher && html`<dt>${t("constraints.matcher")}</dt><dd><${RuleText} matcher=${one.matcher} /></dd>`}
    ${gathering && html`<dt>${t("events.form.gathering")}</dt><dd>${gathering}</dd>`}
    <dt>${t("nav.events")}</dt><dd><a href=${href("events", { definition: one.name })}>${t("events.of_definition")}</a></dd>`;
}

/** @param {{one: Definition}} props A preview of the jobs that this definition would start for the newest events of its type. */
function NewestEvents({ one }) {
  const job = one.argument === null ? { job: only(one.job, ["name", "argument"]) } : {};
  const coming = useComing(
    toJson({ ...only(one, ["kind", ...EVENT_FIELDS]), ...job, count: COMING }),
    one.last_run?.recorded_at,
  );
  const label = t("events.preview");
  return html`<section class="card coming-card"><h2>${label}</h2><${EventsTable} coming=${coming} isAsked label=${label} /></section>`;
}

/** @param {RunView} run */
const dueOf = (run) => `${run.due_at} ${run.event_id ?? ""}`;

/** @param {{one: Definition, query: Record<string, string>, go: typeof import("../core/router.js").go}} props */
function Runs({ one, query, go }) {
  const hold = useHold();
  const outcome = OUTCOMES.includes(query["outcome"] ?? "") ? query["outcome"] : "";
  const path = /** @type {const} */ (`api/definitions/${encodeURIComponent(one.name)}/runs`);
  const of = JSON.stringify([one.name, outcome, query["cursor"]]);
  const found = useResource(
    async (signal) => ({
      ...(await get(path, { outcome, cursor: query["cursor"], limit: PAGE }, signal)),
      of,
    }),
    [of],
    { events: ["definitions", "events", "jobs"], leastMs: 2000, everyMs: 5000 },
  );
  const { rows, newCount, showNew } = useSteadyRows(
    found.data?.runs ?? [],
    dueOf,
    hold.isHeld,
    found.data?.of ?? "",
  );
  const change = (/** @type {Record<string, string | null>} */ changes) =>
    go("definitions", { name: one.name, outcome, ...changes });
  const served = useServed();
  const isWhole = !outcome && !query["cursor"];
  return html`<section class="card after">
      <div class="page-head">
        <h2>${t("definitions.runs")}</h2>
        ${
          isWhole &&
          found.data &&
          html`<${RunStrip} runs=${found.data.runs.slice(0, STRIP)} /> <${Unserved}
              name=${one.job.name} runs=${found.data.runs.slice(0, STRIP)} served=${served} />`
        }
        <${FilterChoice}
          label=${t("definitions.outcome")} value=${outcome} options=${OUTCOMES.map((key) => [
            key,
            t(key ? `definitions.outcome.${key}` : "definitions.state.all"),
          ])}
          onChange=${(/** @type {string} */ key) => change({ outcome: key })} />
      </div>
      <${ErrorBox} problem=${found.problem} onRetry=${found.reload} />
      ${
        !found.data
          ? html`<${Loading} isLoading=${!found.problem} />`
          : html`<${NewRows} count=${newCount} onShow=${showNew} />
            <div ...${hold.bind}>
              <${Table}
                isFixed caption=${t("definitions.runs")} rows=${rows} rowKey=${dueOf}
                columns=${columnsOf(one).map((column) => ({ ...column, label: t(column.label) }))}
                empty=${html`<p class="muted">${t(isTime(one) ? "definitions.no_runs" : "events.no_runs")}</p>`} />
            </div>`
      }
      <${Pager}
        hasNext=${Boolean(found.data?.next_cursor)} hasBefore=${Boolean(query["cursor"])}
        isLoading=${found.isLoading} onNext=${() => change({ cursor: found.data?.next_cursor ?? null })}
        onFirst=${() => change({})} />
    </section>`;
}

/** @typedef {import("../ui/tables.js").Column<RunView> & {label: string}} RunColumn */

/** @type {RunColumn[]} */
const RUN_COLUMNS = [
  {
    key: "outcome",
    label: "definitions.outcome",
    phone: "side",
    render: (run) => html`<${Outcome} run=${run} />`,
  },
  { key: "job", label: "nav.job", phone: "line", render: (run) => html`<${RunJob} run=${run} />` },
];
/** @type {RunColumn[]} */
const OF_TIME = [
  {
    key: "due",
    label: "definitions.due",
    width: 11,
    phone: "main",
    render: (run) => html`<${Time} at=${run.due_at} isPast />`,
  },
  {
    key: "late",
    label: "definitions.lateness",
    align: "end",
    width: 7,
    priority: 2,
    render: (run) => html`<${Lateness} run=${run} />`,
  },
];
/** @type {RunColumn[]} */
const OF_EVENTS = [
  {
    key: "due",
    label: "events.received",
    width: 11,
    phone: "main",
    render: (run) => html`<${Time} at=${run.due_at} isPast />`,
  },
  {
    key: "event",
    label: "events.event",
    width: 9,
    priority: 2,
    render: (run) =>
      run.event_id
        ? html`<${Id} id=${run.event_id} href=${href("events", { id: run.event_id })} />`
        : html`<${Num} value=${null} />`,
  },
];

/** @param {Definition} one @returns {RunColumn[]} */
function columnsOf(one) {
  const [outcome, job] = /** @type {[RunColumn, RunColumn]} */ (RUN_COLUMNS);
  const [due, more] = /** @type {[RunColumn, RunColumn]} */ (isTime(one) ? OF_TIME : OF_EVENTS);
  return [due, outcome, more, job];
}
