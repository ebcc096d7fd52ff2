/** A flow as a waterfall: when each job could start, when it started, and how long it ran. */
import { t, tOr } from "../core/i18n.js";
import { html, useLayoutEffect, useMemo, useRef, useState } from "../core/lib.js";
import { href } from "../core/router.js";
import { isIn } from "../core/states.js";
import { visible } from "../core/text.js";
import { durationText, nowMs } from "../ui/formats.js";
import { brokenIn, titleOf, useKeptNodes } from "./flow_parts.js";

/** @typedef {import("./flow_parts.js").Drawn} Drawn */
/** @typedef {import("./flow_parts.js").FlowJob} FlowJob */

/**
 * The times of one job in Unix ms. `from`: when it could start, because the jobs before it had ended; null: unknown.
 * `end`: the present time for a running job.
 * @typedef {{job: FlowJob, from: number | null, start: number | null, end: number | null}} Row
 */

/** @param {string | null | undefined} at */
const ms = (at) => (at ? Date.parse(at) : null);

/**
 * Return the rows in the order in which the jobs could start, and started.
 * @param {FlowJob[]} jobs
 * @param {number} now Unix ms.
 * @returns {Row[]}
 */
export function rowsOf(jobs, now) {
  const byId = new Map(jobs.map((job) => [job.id, job]));
  const rows = jobs.map((job) => {
    const ends = job.after.map((id) => ms(byId.get(id)?.finished_at));
    const isReleased = ends.every((end) => end !== null);
    const start = ms(job.started_at);
    const released = Math.max(ms(job.created_at) ?? 0, ...ends.map(Number));
    const from = isReleased && job.created_at ? Math.min(released, start ?? released) : start;
    // A skipped job has an end, but no start.
    const end =
      start === null ? null : isIn(job.state ?? "", "finished") ? (ms(job.finished_at) ?? start) : now;
    return { job, from, start, end };
  });
  const never = Infinity;
  return rows.sort(
    (a, b) =>
      (a.start ?? never) - (b.start ?? never) ||
      (a.from ?? never) - (b.from ?? never) ||
      (a.job.id < b.job.id ? -1 : 1) ||
      0,
  );
}

/** @param {Drawn} props */
export function FlowWaterfall({ flow, newest, current, failure, tools }) {
  const [focused, setFocused] = useState("");
  const list = useRef(/** @type {HTMLElement | null} */ (null));
  const kept = useKeptNodes();
  const { rows, first, last } = useMemo(() => {
    const jobs = flow.jobs.map((job) => newest.get(job.id) ?? job);
    const all = rowsOf(jobs, nowMs());
    const times = all.flatMap((row) => [row.from, row.start, row.end]).filter((at) => at !== null);
    return { rows: all, first: Math.min(...times), last: Math.max(...times) };
  }, [flow, newest]);
  const broken = useMemo(() => brokenIn(flow, newest), [flow, newest]);
  const critical = new Set(flow.critical_path);
  const span = Math.max(last - first, 1);
  const entry = rows.some((row) => row.job.id === focused) ? focused : current || failure || rows[0]?.job.id;
  useLayoutEffect(() => {
    const row = list.current?.querySelector(`[data-key="${CSS.escape(current || failure)}"]`)?.parentElement;
    if (list.current && row)
      list.current.scrollTop = row.offsetTop - (list.current.clientHeight - row.offsetHeight) / 2;
  }, [current]);
  const press = (/** @type {KeyboardEvent} */ event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    const place = rows.findIndex((row) => row.job.id === entry);
    const steps = { ArrowDown: place + 1, ArrowUp: place - 1, Home: 0, End: rows.length - 1 };
    const next = rows[/** @type {Record<string, number>} */ (steps)[event.key] ?? -1];
    if (!next) return;
    event.preventDefault();
    const target = list.current?.querySelector(`[data-key="${CSS.escape(next.job.id)}"]`);
    if (target instanceof HTMLElement) target.focus();
  };
  const line = (/** @type {Row} */ row) => {
    const { id } = row.job;
    const isEntry = id === entry;
    const isCritical = critical.has(id);
    const isBroken = broken.has(id);
    const facts = [rows, isEntry, isCritical, id === current, id === failure, broken];
    const marks = { isEntry, isCritical, isBroken, isCurrent: id === current, isFailure: id === failure };
    return kept(
      id,
      facts,
      () => html`<${WaterfallRow} key=${id} row=${row} first=${first} span=${span} ...${marks} />`,
    );
  };
  return html`<div class="row flow-tools">${tools}</div>
    <p class="sr" id="flow-keys">${t("flow.waterfall.keys")}</p>
    <ol
      class="waterfall" ref=${list} aria-label=${t("flow.view.waterfall")} aria-describedby="flow-keys"
      onKeyDown=${press}
      onFocusIn=${(/** @type {import("../core/lib.js").FieldEvent} */ e) =>
        setFocused(e.target.dataset["key"] ?? focused)}>
      ${rows.map(line)}
    </ol>
    <p class="muted small flow-legend">
      <span class="legend-critical"></span> ${t("flow.critical")}
      ${broken.size > 0 && html` · <span class="legend-broken"></span> ${t("flow.broken")}`}
      ${Number.isFinite(span) && ` · ${t("flow.span", { duration: durationText(span) })}`}
    </p>`;
}

/**
 * @param {{row: Row, first: number, span: number, isEntry: boolean, isCritical: boolean, isBroken: boolean, isCurrent: boolean,
 *   isFailure: boolean}} props `first`: the start of the whole flow in Unix ms. `span`: the duration of the whole flow
 *   in ms.
 */
function WaterfallRow({ row, first, span, isEntry, isCritical, isBroken, isCurrent, isFailure }) {
  const { job, from, start, end } = row;
  const at = (/** @type {number} */ time) => `${(100 * (time - first)) / span}%`;
  const waited = from !== null && start !== null ? start - from : null;
  const ran = start !== null && end !== null ? end - start : null;
  const word = job.state ? tOr(`state.${job.state}`, visible(job.state)) : "";
  const told = [
    titleOf(job),
    word,
    waited !== null && waited > 0 && t("flow.waited", { duration: durationText(waited) }),
    ran !== null && t("flow.ran", { duration: durationText(ran) }),
    isCritical && t("flow.critical"),
    job.error && visible(job.error),
  ]
    .filter(Boolean)
    .join(", ");
  const common = {
    class: "waterfall-name",
    "data-key": job.id,
    tabindex: isEntry ? 0 : -1,
    title: told,
    "aria-label": told,
  };
  const name = html`<span class=${`state state-${job.state ?? ""}`}><i aria-hidden="true"></i></span>
    <span class="flow-name">${job.name === null ? t("flow.gone") : visible(job.name)}</span>
    ${job.label && html`<span class="flow-label">${visible(job.label)}</span>`}`;
  const marks = [
    isBroken ? "is-broken" : "",
    isCritical ? "is-critical" : "",
    isCurrent ? "is-current" : "",
    isFailure ? "is-failure" : "",
  ].join(" ");
  return html`<li class=${marks}>
      ${
        job.state === null
          ? html`<span role="img" ...${common}>${name}</span>`
          : html`<a href=${href("job", { id: job.id })} aria-current=${isCurrent ? "true" : undefined} ...${common}>${name}</a>`
      }
      <span class="waterfall-track" aria-hidden="true">
        ${
          waited !== null &&
          waited > 0 &&
          from !== null &&
          html`<i class="waterfall-wait" style=${{ left: at(from), width: `${(100 * waited) / span}%` }}></i>`
        }
        ${
          start !== null &&
          ran !== null &&
          html`<i class=${`waterfall-run seg-${job.state}`} style=${{ left: at(start), width: `${(100 * ran) / span}%` }}></i>`
        }
      </span>
      <span class="num muted" aria-hidden="true">${ran === null ? word : durationText(ran)}</span>
      ${job.error && html`<span class="waterfall-error" aria-hidden="true">${visible(job.error)}</span>`}
    </li>`;
}
