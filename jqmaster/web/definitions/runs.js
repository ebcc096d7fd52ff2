/** The outcomes of the due instants of a definition: as a strip, and in words. */
import { number, t, tOr } from "../core/i18n.js";
import { html } from "../core/lib.js";
import { href } from "../core/router.js";
import { isIn } from "../core/states.js";
import { visible } from "../core/text.js";
import { Badge, Duration, Id, Num, State, durationText } from "../ui/formats.js";

/** @typedef {import("../../answers").Schemas["RunView"]} RunView */

/** Maximum number of records in a strip. */
export const STRIP = 30;
// A run that is late by less than this is shown as punctual.
const LATE_MS = 1000;

/**
 * @param {RunView} run
 * @returns {number | null} How many ms after the instant the definition fired; null if the schedule did not start this
 *   run.
 */
export const latenessMs = (run) =>
  run.outcome === "fired" && (run.reason === null || run.reason === "caught_up")
    ? Math.max(0, Date.parse(run.recorded_at) - Date.parse(run.due_at))
    : null;

/** @param {RunView} run @returns {string} The word by which the run is counted and drawn: its outcome, or how its job ended. */
function kindOf(run) {
  if (run.outcome !== "fired") return run.outcome === "missed" ? "missed" : "left-out";
  if (!run.job_state) return "fired";
  return isIn(run.job_state, "finished") ? run.job_state : "going";
}

/** @param {string} reason @returns {string} The reason in words. The reason of a calendar includes the name of the day. */
export function reasonText(reason) {
  const [, name] = /^calendar: (.*)$/s.exec(reason) ?? [];
  if (name === "workday") return t("definitions.left_out.workday");
  if (name) return t("definitions.reason.calendar", { name: visible(name) });
  return tOr(`definitions.reason.${reason}`, visible(reason));
}

/** @param {RunView} run @returns {string} */
export function runText(run) {
  const outcome = tOr(`definitions.outcome.${run.outcome}`, visible(run.outcome));
  const reason = run.reason && reasonText(run.reason);
  const state = run.job_state && tOr(`state.${run.job_state}`, visible(run.job_state));
  return [outcome, reason, state].filter(Boolean).join(" · ");
}

/** @param {RunView[]} runs @returns {number} How many jobs of these runs have not finished. */
export const unfinished = (runs) => runs.filter((run) => kindOf(run) === "going").length;

/**
 * A warning if no job of these runs can end, because no worker serves the job name.
 * @param {{name: string, runs: RunView[], served: Set<string> | null, class?: string}} props
 *   `served`: the job names that live workers serve; null: not known yet.
 */
export function Unserved({ name, runs, served, class: more = "" }) {
  const count = unfinished(runs);
  if (count === 0 || served?.has(name) !== false) return null;
  const text = t("definitions.unserved", { count, name: visible(name) });
  return html`<a class=${`unserved ${more}`} title=${text} href=${href("names", { name })}>${text}</a>`;
}

/** @param {RunView[]} runs The runs, newest first. @returns {string} A summary, for example `Last 30: 28 Succeeded, 1 Missed`. */
function stripText(runs) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const run of runs) counts.set(kindOf(run), (counts.get(kindOf(run)) ?? 0) + 1);
  const parts = [...counts].map(
    ([kind, count]) => `${number(count)} ${tOr(`definitions.kind.${kind}`, tOr(`state.${kind}`, kind))}`,
  );
  return runs.length === 0
    ? t("definitions.no_runs")
    : t("definitions.strip", { count: runs.length, parts: parts.join(", ") });
}

/** @param {{runs: RunView[]}} props The strip, oldest run first. All strips have the same width. */
export function RunStrip({ runs }) {
  const label = stripText(runs);
  const shown = runs.slice(0, STRIP).reverse();
  return html`<span class="run-strip" role="img" aria-label=${label} title=${label}>
      ${shown.map(
        (run) =>
          html`<i key=${`${run.due_at} ${run.event_id ?? run.moved_from ?? ""}`} class=${`run run-${kindOf(run)}`}></i>`,
      )}
    </span>`;
}

/** @type {Record<string, "ok" | "bad" | "info">} */
const OUTCOME_KINDS = { fired: "ok", missed: "bad", waiting: "info" };

/** @param {{run: {outcome: string, reason: string | null, moved_from?: string | null}}} props */
export function Outcome({ run }) {
  const kind = OUTCOME_KINDS[run.outcome] ?? "off";
  return html`<${Badge} kind=${kind}>${tOr(`definitions.outcome.${run.outcome}`, visible(run.outcome))}<//>
    ${run.reason && html` <span class="muted">${reasonText(run.reason)}</span>`}
    ${
      run.moved_from &&
      html` <span class="muted">${t("definitions.moved_from", { day: run.moved_from.slice(0, 10) })}</span>`
    }`;
}

/** @param {{run: RunView | null | undefined}} props How late the run fired. */
export function Lateness({ run }) {
  const ms = run ? latenessMs(run) : null;
  if (ms === null) return html`<${Num} value=${null} />`;
  return ms >= LATE_MS
    ? html`<${Badge} kind="warn">${durationText(ms)}<//>`
    : html`<span class="muted"><${Duration} ms=${ms} /></span>`;
}

/** @param {{run: RunView}} props The job of the run, with its present state. */
export function RunJob({ run }) {
  if (!run.job_id) return html`<${Num} value=${null} />`;
  return html`<${Id} id=${run.job_id} href=${href("job", { id: run.job_id })} /> ${
    run.job_state
      ? html`<${State} state=${run.job_state} />`
      : html`<span class="muted">${t("definitions.job_gone")}</span>`
  }`;
}
