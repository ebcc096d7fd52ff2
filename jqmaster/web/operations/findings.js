/**
 * The findings of `GET /api/health` for people: each with its text, and a link to its cause. The master decides on
 * findings and their severity.
 */
import { get } from "../core/api.js";
import { number, t, tOr } from "../core/i18n.js";
import { useRef } from "../core/lib.js";
import { useResource } from "../core/resource.js";
import { href } from "../core/router.js";
import { visible } from "../core/text.js";
import { reasonText } from "../definitions/runs.js";
import { whoText } from "../identity/value_words.js";
import { workersText } from "../jobs/verdicts.js";
import { bytesText, durationText, nowMs, relativeText, steadyMs } from "../ui/formats.js";

/** @typedef {import("../core/live.js").LiveEvent} LiveEvent */
/** @typedef {import("../../answers").Schemas["HealthVerdictView"]} Verdict */
/** @typedef {import("../../answers").Schemas["HealthFindingView"]} Finding */
/** @typedef {Finding["severity"]} Severity */
/** @typedef {Record<string, string | number | null>} Figures */
/**
 * @typedef {{name: string, value: string | null, count: number, held: number, slots: number | null, running: number |
 *   null, used: number | null, rate: string | null, unit: string | null, eta_ms: number | null, held_until: string |
 *   null, keys: number | null, closed_keys: number | null, since_at: string | null}} LimitFigures The figures of the
 *   finding `full`.
 */
/**
 * @typedef {{name: string, of: string, subject: string, key: string, by: string, reason: string, count: number, values:
 *   number, since_at: string, until_at: string | null}} PauseFigures The figures of findings about pauses.
 */
/** @typedef {{page: import("../core/router.js").PageName, query?: Record<string, string>, act?: string}} Link */

/** @type {LiveEvent[]} */
const EVENTS = ["jobs", "constraints", "workers", "masters", "definitions"];
// How often to poll, so that a finding is shown within ten seconds. A full constraint becomes a finding only after
// three answers.
const POLL_MS = 2_500;
const MAX_SUBJECT = 200;

/** @type {Record<string, (figures: Record<string, string>) => Link>} By code of a finding: the page that its link opens. */
const LINKS = {
  no_leader: () => ({ page: "masters" }),
  late_leader: () => ({ page: "masters" }),
  stale_masters: () => ({ page: "masters" }),
  duty: () => ({ page: "masters" }),
  store: () => ({ page: "settings" }),
  no_worker: () => ({ page: "workers" }),
  stale_workers: () => ({ page: "workers", query: { state: "stale" } }),
  dead_worker: workerLink,
  replaced_worker: workerLink,
  orphan: ({ name = "" }) => ({ page: "jobs", query: { state: "ready", name }, act: t("fault.orphan.act") }),
  wait: ({ job_id = "" }) => ({ page: "job", query: { id: job_id }, act: t("fault.wait.act") }),
  failing: ({ name = "" }) => ({ page: "failures", query: { name } }),
  rising: () => ({ page: "failures" }),
  late_definition: definitionLink,
  missed_instant: definitionLink,
  skipping_definition: definitionLink,
  calendar_ends: ({ name = "" }) => ({ page: "calendars", query: { name } }),
  full: constraintLink,
  pause: constraintLink,
  paused: constraintLink,
  paused_values: constraintLink,
  growth: () => ({ page: "names" }),
  drains: () => ({ page: "names" }),
};

/** @param {Record<string, string>} figures @returns {Link} */
function workerLink({ id = "" }) {
  return { page: "workers", query: { id }, act: t("fault.dead_worker.act") };
}

/** @param {Record<string, string>} figures @returns {Link} */
function definitionLink({ name = "" }) {
  return { page: "definitions", query: { name } };
}

/** @param {Record<string, string>} figures @returns {Link} */
function constraintLink({ name = "" }) {
  return { page: "constraints", query: { name } };
}

/**
 * Return the verdict on the whole queue. While the store does not answer, the list has this fault first, and then the
 * last known findings. The page says how old they are.
 */
export function useHealth() {
  const health = useResource((signal) => get("api/health", {}, signal), [], {
    events: EVENTS,
    leastMs: POLL_MS,
    everyMs: POLL_MS,
    pollMs: POLL_MS,
  });
  const known = useRef(/** @type {Verdict | null} */ (null));
  if (health.data?.at) known.current = health.data;
  const isKnown = health.data !== null && health.data === known.current;
  const before = isKnown ? [] : (known.current?.findings ?? []);
  return { ...health, findings: [...(health.data?.findings ?? []), ...before], isKnown };
}

/** @param {Finding} finding @returns {{href: string, act: string} | null} */
export function linkOf({ code, figures }) {
  const { page, query, act } = LINKS[code]?.(/** @type {Record<string, string>} */ (figures)) ?? {};
  return page ? { href: href(page, query), act: act ?? t(`nav.${page}`) } : null;
}

/**
 * @param {Finding[]} findings The worst first.
 * @param {...string} codes
 * @returns {Severity | ""} The severity of the worst finding with one of these codes.
 */
export const worst = (findings, ...codes) =>
  findings.find((finding) => codes.includes(finding.code))?.severity ?? "";

/** @param {Finding} finding @returns {string} The text of the finding. If this page does not know the finding, the master's own text. */
export function findingText({ code, text, figures }) {
  switch (code) {
    case "full":
      return limitText(/** @type {LimitFigures} */ (figures));
    case "pause":
    case "paused":
    case "paused_values":
      return pauseText(code, /** @type {PauseFigures} */ (figures));
    case "dead_worker":
      return t(figures["count"] ? "health.dead_worker" : "health.dead_worker.idle", shown(figures));
    case "wait":
      return t(figures["cause"] ? "health.wait" : "health.wait.no_cause", {
        ...shown(figures),
        cause: causeText(figures),
      });
    case "failing":
      return t("health.failing", { ...shown(figures), kind: kindText(figures) }).trim();
    default: {
      const key = `health.${code}`;
      return tOr(key, "") ? t(key, shown(figures)).trim() : visible(text);
    }
  }
}

/** @param {Figures} figures The figures of the finding `wait`. @returns {string} Why no worker takes the job. */
function causeText({ cause, cause_code: code, ...figures }) {
  return code === "no_worker" || code === "workers_unavailable"
    ? workersText(
        /** @type {Parameters<typeof workersText>[0]} */ (/** @type {unknown} */ ({ ...figures, code })),
      )
    : visible(String(cause ?? ""));
}

/** @param {Figures} figures The figures of the finding `failing`. @returns {string} The text about what is new in the failures. */
function kindText({ kind, mark, cause, version, began_at: began }) {
  const key = `health.failing.${mark}${version ? ".version" : ""}`;
  if (!tOr(key, "")) return visible(String(kind ?? ""));
  return t(key, {
    cause: tOr(`cause.${cause}`, visible(String(cause))),
    began: relativeText(Date.parse(String(began))),
    version: visible(String(version)),
  });
}

/** @param {Figures} figures @returns {Record<string, string | number>} The figures as texts for people. */
function shown(figures) {
  /** @type {Record<string, string | number>} */
  const found = {};
  for (const [key, value] of Object.entries(figures)) {
    if (value === null) continue;
    if (key === "share") found[key] = percent(Number(value));
    else if (key === "latency_ms") found["duration"] = durationText(Number(value));
    else if (key === "wait_ms") found["duration"] = durationText(steadyMs(Number(value)));
    else if (key === "eta_ms") found["eta"] = durationText(Number(value), true);
    else if (key === "used" || key === "most") found[key] = bytesText(Number(value));
    else if (key === "reason") found["cause"] = reasonText(String(value));
    else if (key.endsWith("_at")) found[key.slice(0, -3)] = relativeText(Date.parse(String(value)));
    else found[key] = typeof value === "string" ? visible(value) : value;
  }
  return found;
}

/** @param {number} share */
export const percent = (share) =>
  number(share, { style: "percent", maximumFractionDigits: share > 0 && share < 0.1 ? 1 : 0 });

/** @param {LimitFigures} figures */
function limitText({ value, held, count, rate, slots, running, eta_ms, held_until, used, ...figures }) {
  const { closed_keys: closed, keys, since_at: since } = figures;
  const name = visible(figures.name);
  const unit = visible(figures.unit ?? "");
  return [
    closed
      ? t("health.full_values", { name, count: held, keys: closed, all: keys ?? closed })
      : t("health.full", { name, count: held }),
    value !== null && t("health.full_value", { count, value: visible(value) }),
    rate &&
      (unit
        ? t("health.full.units_rate", { rate: visible(rate), used: number(used ?? 0) })
        : t("health.full.rate", { rate: visible(rate), eta: durationText(eta_ms ?? 0, true) })),
    slots &&
      (unit
        ? t("health.full.units", { running: number(running ?? 0), slots: number(slots), unit })
        : t("health.full.slots", { running: running ?? 0, slots })),
    held_until && t("health.full.held", { until: relativeText(Date.parse(held_until)) }),
    since && t("health.full.since", { duration: durationText(steadyMs(nowMs() - Date.parse(since))) }),
  ]
    .filter(Boolean)
    .join(" ");
}

/**
 * @param {"pause" | "paused" | "paused_values"} code
 * @param {PauseFigures} figures
 */
function pauseText(code, { name, of, subject, key, by, reason, count, values, since_at, until_at }) {
  const shownSubject = visible(subject.slice(0, MAX_SUBJECT));
  const since = relativeText(Date.parse(since_at));
  const what = t(`pause.what.${of}`, {
    name: shownSubject,
    tag: shownSubject,
    key: visible(key),
    value: shownSubject,
  });
  const first =
    code === "pause"
      ? t(by ? "health.pause_by" : "health.pause", { what, since, who: visible(whoText(by)) })
      : t(`health.${code}`, { name: visible(name), since, count: values, values: shownSubject });
  return [
    first,
    t("health.pause.waiting", { count }),
    reason && `“${visible(reason).slice(0, 200)}”`,
    until_at && t("health.pause.until", { until: relativeText(Date.parse(until_at)) }),
  ]
    .filter(Boolean)
    .join(" ");
}
