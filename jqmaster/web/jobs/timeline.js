/** The states that a job was in, each with its beginning and end. */
import { html } from "../core/lib.js";
import { t, tOr } from "../core/i18n.js";
import { isIn } from "../core/states.js";
import { Duration, State, Time, durationText, nowMs, steadyMs, useTick } from "../ui/formats.js";

/** @typedef {import("../../answers").Schemas["JobView"]} JobView */
/** @typedef {import("../../answers").Schemas["AttemptView"]} Attempt */
/** @typedef {{state: string, label: string, from: number, to: number | null, attempt?: Attempt}} Phase */

/**
 * Return the states that the job was in, each with its beginning and end. Only stored states can be returned.
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
    // Only the latest wait has a known due time.
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
export function Timeline({ job }) {
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
                      : one.to === null
                        ? html`<span class="num">${t("job.so_far", { duration: durationText(steadyMs(lasted[i] ?? 0)) })}</span>`
                        : html`<${Duration} ms=${lasted[i]} />`
                  }
                </td>
              </tr>`,
          )}
        </tbody>
      </table>
    </section>`;
}
