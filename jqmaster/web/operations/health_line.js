/** The first line of the Overview: the master's verdict on the whole queue, in the reader's language. */
import { html } from "../core/lib.js";
import { get } from "../core/api.js";
import { number, t, tOr } from "../core/i18n.js";
import { useResource } from "../core/live.js";
import { visible } from "../core/text.js";
import { Badge, bytesText, durationText, relativeText, steadyMs } from "../ui/formats.js";
import { whoText } from "../identity/value_words.js";

/** @typedef {import("../core/live.js").LiveEvent} LiveEvent */
/** @typedef {import("../../answers").Schemas["HealthVerdictView"]} Verdict */
/** @typedef {import("./faults.js").Fault} Fault */
/** @typedef {Record<string, string | number | null>} Figures */
/** @typedef {{code: string, text: string, figures: Figures}} Finding */
/**
 * @typedef {{name: string, value: string | null, count: number, held: number, slots: number | null, running: number |
 *   null, used: number | null, rate: string | null, unit: string | null, eta_ms: number | null, held_until: string |
 *   null}} LimitFigures Those of `full`.
 */
/** @typedef {{of: string, subject: string, key: string, by: string, reason: string, count: number, until_at: string | null}} PauseFigures Those of pauses. */

/** @type {LiveEvent[]} */
const EVENTS = ["jobs", "constraints", "workers", "masters"];
/** @type {Record<string, "ok" | "info" | "warn" | "bad">} */
const KINDS = { ok: "ok", waiting: "info", degraded: "warn", broken: "bad" };

export const useHealth = () =>
  useResource((signal) => get("api/health", {}, signal), [], {
    events: EVENTS,
    leastMs: 4_000,
    everyMs: 15_000,
  });

/** @param {{verdict: Verdict | null, faults: Fault[]}} props `verdict`: null while it is not known. `faults`: those that the page lists below. */
export function HealthLine({ verdict, faults }) {
  if (!verdict) return html`<p class="health" aria-hidden="true">${" "}</p>`;
  const { status, findings, command } = verdict;
  const text = findings[0]
    ? (countsInstead(findings[0], faults) ?? findingText(findings[0]))
    : t("health.none");
  const isWell = status === "ok" || status === "waiting";
  return html`<p class="health" role="status">
      <${Badge} kind=${KINDS[status] ?? "info"}>${tOr(`health.status.${status}`, visible(status))}<//> <span>
        ${text}${isWell && ` ${t("health.nothing_broken")}`}
      </span>
      ${command && html` <span class="muted">${t("health.command")} <code>${visible(command)}</code></span>`}
    </p>`;
}

/**
 * @param {Finding} finding
 * @param {Fault[]} faults
 * @returns {string | null} How many problems the page lists, if its first one says what the finding says.
 */
export function countsInstead({ code }, faults) {
  if (!faults.some((fault) => fault.kind === "bad" && fault.code === code)) return null;
  return /** @type {const} */ (["bad", "warn"])
    .map((kind) => ({ kind, count: faults.filter((fault) => fault.kind === kind).length }))
    .filter(({ count }) => count > 0)
    .map(({ kind, count }) => t(`health.count.${kind}`, { count }))
    .join(t("health.count.and"));
}

/** @param {Finding} finding @returns {string} The master's own text for a finding that this page does not know. */
export function findingText({ code, text, figures }) {
  switch (code) {
    case "full":
      return limitText(/** @type {LimitFigures} */ (figures));
    case "pause":
    case "paused":
    case "paused_values":
      return pauseText(/** @type {PauseFigures} */ (figures));
    case "drains":
      return t("health.drains", { ...shown(figures), eta: durationText(Number(figures["eta_ms"]), true) });
    case "wait":
      return t("health.wait", {
        ...shown(figures),
        duration: durationText(steadyMs(Number(figures["wait_ms"]))),
      });
    default: {
      const key = `health.${code}`;
      return tOr(key, "") ? t(key, shown(figures)) : visible(text);
    }
  }
}

/** @param {Figures} figures @returns {Record<string, string | number>} The figures as people read them. */
function shown(figures) {
  /** @type {Record<string, string | number>} */
  const found = {};
  for (const [key, value] of Object.entries(figures)) {
    if (value === null) continue;
    if (key === "share") found[key] = number(Number(value), { style: "percent", maximumFractionDigits: 0 });
    else if (key === "latency_ms") found["duration"] = durationText(Number(value));
    else if (key === "used" || key === "most") found[key] = bytesText(Number(value));
    else if (key.endsWith("_at")) found[key.slice(0, -3)] = relativeText(Date.parse(String(value)));
    else found[key] = typeof value === "string" ? visible(value) : value;
  }
  return found;
}

/** @param {LimitFigures} figures */
function limitText({ value, held, count, rate, slots, running, eta_ms, held_until, used, ...figures }) {
  const name = visible(figures.name);
  const unit = visible(figures.unit ?? "");
  const first =
    value === null
      ? t("health.full", { name, count: held })
      : t("health.full_value", { name, count, held, value: visible(value) });
  const limits = [
    rate &&
      (unit
        ? t("health.full.units_rate", { rate: visible(rate), used: number(used ?? 0) })
        : t("health.full.rate", { rate: visible(rate), eta: durationText(eta_ms ?? 0, true) })),
    slots &&
      (unit
        ? t("health.full.units", { running: number(running ?? 0), slots: number(slots), unit })
        : t("health.full.slots", { running: running ?? 0, slots })),
    held_until && t("health.full.held", { until: relativeText(Date.parse(held_until)) }),
  ].filter(Boolean);
  return first + (limits.length ? ` ${limits.join(" ")}` : "");
}

/** @param {PauseFigures} figures */
function pauseText({ of, subject, key, by, reason, count, until_at }) {
  const what = t(`pause.what.${of}`, {
    name: visible(subject),
    tag: visible(subject),
    key: visible(key),
    value: visible(subject),
  });
  return [
    by
      ? t("health.pause_by", { what, count, who: visible(whoText(by)) })
      : t("health.pause", { what, count }),
    reason && `“${visible(reason).slice(0, 200)}”`,
    until_at && t("fault.pause.until", { until: relativeText(Date.parse(until_at)) }),
  ]
    .filter(Boolean)
    .join(" ");
}
