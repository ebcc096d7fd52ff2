/** The columns of job lists: their content, the default columns, and the columns that people chose. */
import { html, useRef } from "../core/lib.js";
import { t, tOr } from "../core/i18n.js";
import { pref, setPref, usePref } from "../core/prefs.js";
import { href } from "../core/router.js";
import { visible } from "../core/text.js";
import { Button } from "../ui/controls.js";
import { Dialog } from "../ui/dialogs.js";
import { Duration, Id, Num, State, Text, Time, nowMs, useTick } from "../ui/formats.js";
import { Progress } from "../ui/progress.js";
import { isIn } from "../core/states.js";
import { WorkerLink } from "../workers/worker_link.js";

/** @typedef {import("../../answers").Schemas["ListedJob"]} ListedJob */

const TIMES = ["created", "run_at", "started", "finished"];
// The column widths for relative times, and for dates with times.
const TIME_REM = 7.4;
const DATE_REM = 11.2;
const SECOND_LINE = ["state", "error", "argument", "progress"];

/** @typedef {import("../ui/tables.js").Column<ListedJob> & {by?: (job: ListedJob) => number | string, include?: string, isDefault?: boolean}} JobColumn */

/** @param {{failures: number, max_retry: number, state: string, cause: string | null}} job */
export function retriesText({ failures, max_retry: most, state, cause }) {
  if (most === 0) return t("job.no_retries");
  // No retry followed the failure that ended the job.
  const retried = state === "failed" && cause !== "lost" ? failures - 1 : failures;
  return t("job.failures_of", { used: Math.max(0, Math.min(retried, most)), most });
}

const ENDED = ["name", "argument", "finished", "duration", "worker"];
/** @type {Record<string, string[]>} The default columns of a list by its state; "": the list of all states. */
const DEFAULTS = {
  "": ["state", "name", "argument", "error", "created", "finished", "duration", "worker"],
  ready: ["name", "argument", "priority", "attempt", "created"],
  running: ["name", "argument", "progress", "attempt", "started", "duration", "worker"],
  awaiting_callback: ["name", "argument", "attempt", "started", "run_at"],
  awaiting_jobs: ["name", "argument", "priority", "created"],
  scheduled: ["name", "argument", "run_at", "created"],
  retrying: ["name", "error", "attempt", "run_at", "worker"],
  failed: ["name", "error", "argument", "attempt", "finished", "duration", "worker"],
};

/** @param {string} state @returns {string} The column whose instant orders the lists of a state; "" for all states. */
export function orderedBy(state) {
  if (state === "") return "";
  if (isIn(state, "finished")) return "finished";
  return (
    { running: "started", scheduled: "run_at", retrying: "run_at", awaiting_callback: "run_at" }[state] ??
    "created"
  );
}

/** @param {string | null | undefined} at */
const ms = (at) => (at ? Date.parse(at) : 0);
/** @param {ListedJob} job @returns {number} How long the latest attempt ran, or has been running; -1 if the job never ran. */
function ranMs(job) {
  if (!job.started_at) return -1;
  if (job.finished_at) return Math.max(0, ms(job.finished_at) - ms(job.started_at));
  return job.state === "running" ? Math.max(0, nowMs() - ms(job.started_at)) : -1;
}

/** @type {JobColumn[]} */
const ALL = [
  {
    key: "state",
    label: "job.state",
    width: 7.2,
    by: (job) => job.state,
    render: (job) => html`<${State} state=${job.state} />`,
  },
  {
    key: "name",
    label: "job.name",
    by: (job) => job.name,
    render: (job) =>
      html`<a href=${href("job", { id: job.id })} title=${visible(job.name)}>${visible(job.name)}</a>
        ${job.tags
          .slice(0, 4)
          .map(
            (/** @type {string} */ tag) =>
              html` <a class="chip" href=${href("jobs", { tag })}><${Text} value=${tag} max=${30} /></a>`,
          )}`,
  },
  {
    key: "error",
    label: "job.error",
    include: "error",
    by: (job) => job.error ?? "",
    render: (job) => html`<${Line} text=${job.error} />`,
  },
  {
    key: "argument",
    label: "job.argument",
    include: "argument",
    priority: 2,
    by: (job) => job.argument_excerpt ?? "",
    render: (job) => html`<${Line} text=${job.argument_excerpt} isCode />`,
  },
  {
    key: "progress",
    label: "job.progress",
    include: "progress",
    width: 9,
    by: (job) => job.progress?.fraction ?? -1,
    render: (job) =>
      job.progress && job.state !== "succeeded"
        ? html`<${Progress} progress=${job.progress} />`
        : html`<${Num} value=${null} />`,
  },
  {
    key: "id",
    label: "job.id",
    width: 8,
    priority: 3,
    by: (job) => job.id,
    render: (job) => html`<${Id} id=${job.id} />`,
  },
  {
    key: "priority",
    label: "job.priority",
    align: "end",
    width: 5.5,
    priority: 3,
    by: (job) => job.priority,
    render: (job) => html`<${Num} value=${job.priority} />`,
  },
  {
    key: "attempt",
    label: "job.attempt",
    align: "end",
    width: 5.4,
    priority: 2,
    by: (job) => job.attempt,
    render: (job) =>
      html`<span class="num" title=${retriesText(job)}>${job.attempt}${job.failures > 0 && html` <span class="fails">✗${job.failures}</span>`}</span>`,
  },
  {
    key: "created",
    label: "job.created",
    align: "end",
    by: (job) => ms(job.created_at),
    render: (job) => html`<${Time} at=${job.created_at} />`,
  },
  {
    key: "run_at",
    label: "job.due",
    align: "end",
    by: (job) => ms(job.run_at),
    render: (job) => html`<${Time} at=${job.run_at} />`,
  },
  {
    key: "started",
    label: "job.started",
    align: "end",
    priority: 3,
    by: (job) => ms(job.started_at),
    render: (job) => html`<${Time} at=${job.started_at} />`,
  },
  {
    key: "finished",
    label: "job.finished",
    align: "end",
    priority: 2,
    by: (job) => ms(job.finished_at),
    render: (job) => html`<${Time} at=${job.finished_at} />`,
  },
  {
    key: "duration",
    label: "job.duration",
    align: "end",
    width: 5.6,
    priority: 2,
    by: ranMs,
    render: (job) => html`<${Ran} job=${job} />`,
  },
  {
    key: "worker",
    label: "job.worker",
    include: "worker",
    width: 8.5,
    priority: 4,
    by: (job) => job.worker_name ?? job.worker_id ?? "",
    render: (job) =>
      job.worker_id
        ? html`<${WorkerLink} id=${job.worker_id} name=${job.worker_name} />`
        : html`<${Num} value=${null} />`,
  },
  {
    key: "cause",
    label: "job.cause",
    width: 6.5,
    priority: 2,
    by: (job) => job.cause ?? "",
    render: (job) =>
      job.cause ? tOr(`cause.${job.cause}`, visible(job.cause)) : html`<${Num} value=${null} />`,
  },
  {
    key: "timeout",
    label: "job.timeout",
    align: "end",
    width: 6.5,
    priority: 3,
    by: (job) => job.timeout,
    render: (job) => html`<${Duration} ms=${job.timeout * 1000} />`,
  },
];
const KEYS = ALL.map((column) => column.key);

/** @param {{text: string | null | undefined, isCode?: boolean}} props One line of text from outside. Its title contains the whole text. */
function Line({ text, isCode = false }) {
  if (!text) return html`<${Num} value=${null} />`;
  const shown = visible(text);
  return html`<bdi class=${isCode ? "line code-line" : "line"} title=${shown}>${shown}</bdi>`;
}

/** @param {{job: ListedJob}} props How long the latest attempt ran, or has been running. */
function Ran({ job }) {
  useTick();
  const ran = ranMs(job);
  if (ran < 0) return html`<${Num} value=${null} />`;
  return html`<${Duration} ms=${job.finished_at ? ran : Math.floor(ran / 1000) * 1000} />`;
}

/**
 * Return the columns of a list: the columns in its address. Without them, the columns that the user chose. Without a
 * choice, the default columns of its state.
 * @param {string} state
 * @param {string | undefined} asked Keys separated by commas, as in a shared link.
 * @returns {JobColumn[]} The default columns have `isDefault`.
 */
export function useJobColumns(state, asked) {
  const [chosen] = usePref("columns", null);
  const [times] = usePref("times", "relative");
  const keys = asked
    ? asked.split(",")
    : Array.isArray(chosen)
      ? chosen
      : (DEFAULTS[state] ?? (isIn(state, "finished") ? ENDED : (DEFAULTS[""] ?? ENDED)));
  return columnsOf(keys, times).map((column) => ({ ...column, isDefault: !asked && !Array.isArray(chosen) }));
}

/** @param {string[]} keys @param {string} times How the reader wants to see times. @returns {JobColumn[]} */
function columnsOf(keys, times) {
  const columns = ALL.filter((column) => keys.includes(column.key));
  return (columns.length ? columns : ALL.slice(0, 2)).map((column) => ({
    ...column,
    label: t(/** @type {string} */ (column.label)),
    ...(TIMES.includes(column.key) && { width: times === "relative" ? TIME_REM : DATE_REM }),
  }));
}

const OF_MEMBERS = ["state", "name", "argument", "error", "cause", "attempt", "created", "finished"];
// The values of the parameter `include` that these columns need.
export const MEMBERS_INCLUDE = "argument,error";

/**
 * Return the columns for a list of related jobs. They include the cause only if jobs have a cause without an error that
 * explains it.
 * @param {ListedJob[]} jobs
 * @returns {JobColumn[]}
 */
export function useMemberColumns(jobs) {
  const [times] = usePref("times", "relative");
  const has = { error: jobs.some((job) => job.error), cause: jobs.some((job) => job.cause && !job.error) };
  const columns = columnsOf(OF_MEMBERS, times).filter(
    ({ key }) => (key !== "error" || has.error) && (key !== "cause" || has.cause),
  );
  return placed(
    columns.map((column) => ({ ...column, isDefault: true })),
    "finished",
  );
}

/**
 * Leave out the error column while no listed job has an error. The column appears with the first error, and stays until
 * `of` changes.
 * @param {JobColumn[]} columns
 * @param {ListedJob[]} rows
 * @param {string} of A text that identifies the list.
 */
export function useErrorColumn(columns, rows, of) {
  const seen = useRef(/** @type {string | null} */ (null));
  if (rows.some((job) => job.error)) seen.current = of;
  return columns.filter((column) => column.key !== "error" || !column.isDefault || seen.current === of);
}

/**
 * Return the columns with their places on phones.
 * @param {JobColumn[]} columns
 * @param {string} by The column whose instant ends each row.
 */
export function placed(columns, by) {
  const has = (/** @type {string} */ key) => columns.some((column) => column.key === key);
  // Leave out the argument if another text needs the line.
  const isLeftOut = (/** @type {string} */ key) =>
    key === "argument" && (has("state") || has("error") || has("progress"));
  return columns.map(({ phone: _, ...column }) => {
    if (column.key === "name") return { ...column, phone: /** @type {const} */ ("main") };
    if (column.key === by) return { ...column, phone: /** @type {const} */ ("side") };
    const isShown = column.isDefault ? SECOND_LINE.includes(column.key) && !isLeftOut(column.key) : true;
    return isShown ? { ...column, phone: /** @type {const} */ ("line") } : column;
  });
}

/** @param {JobColumn[]} columns @returns {string} The parameter `include` for these columns. */
export const includeOf = (columns) => columns.flatMap((column) => column.include ?? []).join(",");

/** @returns {string | undefined} The chosen columns, in the form of a link. */
export function chosenColumns() {
  const chosen = pref("columns", null);
  return Array.isArray(chosen) ? chosen.join(",") : undefined;
}

/** @param {{columns: JobColumn[], onClose: () => void}} props */
export function ColumnsDialog({ columns, onClose }) {
  const chosen = columns.map((column) => column.key);
  const [density, setDensity] = usePref("density", "normal");
  const toggle = (/** @type {string} */ key) => {
    const next = KEYS.filter((one) => (one === key ? !chosen.includes(key) : chosen.includes(one)));
    if (next.length) setPref("columns", next);
  };
  return html`<${Dialog} title=${t("columns")} onClose=${onClose}>
      <ul class="plain">
        ${ALL.map(
          (column) =>
            html`<li key=${column.key}>
                <label class="check">
                  <input
                    type="checkbox" checked=${chosen.includes(column.key)}
                    onChange=${() => toggle(column.key)} /> ${t(/** @type {string} */ (column.label))}
                </label>
              </li>`,
        )}
      </ul>
      <label class="check">
        <input
          type="checkbox" checked=${density === "compact"}
          onChange=${() => setDensity(density === "compact" ? null : "compact")} /> ${t("columns.compact")}
      </label>
      <footer>
        <${Button} onClick=${() => setPref("columns", null)}>${t("columns.reset")}<//>
        <${Button} kind="primary" onClick=${onClose}>${t("close")}<//>
      </footer>
    <//>`;
}
