/** The first line of the Overview: the master's verdict on the whole queue, in the reader's language. */
import { t, tOr } from "../core/i18n.js";
import { html } from "../core/lib.js";
import { visible } from "../core/text.js";
import { Badge } from "../ui/formats.js";
import { findingText } from "./findings.js";

/** @typedef {import("./findings.js").Verdict} Verdict */
/** @typedef {import("./findings.js").Finding} Finding */

/** @type {Record<string, "ok" | "info" | "warn" | "bad">} */
const KINDS = { ok: "ok", waiting: "info", degraded: "warn", broken: "bad" };

/** @param {{verdict: Verdict | null, findings: Finding[]}} props `verdict`: null while it is not known. `findings`: the findings that the page lists below. */
export function HealthLine({ verdict, findings }) {
  if (!verdict) return html`<p class="health" aria-hidden="true">${" "}</p>`;
  const { status, command } = verdict;
  const [first] = findings;
  const isWell = status === "ok" || status === "waiting";
  const text = first && status !== "ok" ? (countsOf(findings) ?? findingText(first)) : t("health.none");
  return html`<p class="health" role="status">
      <${Badge} kind=${KINDS[status] ?? "info"}>${tOr(`health.status.${status}`, visible(status))}<//> <span>
        ${text}${isWell && ` ${t("health.nothing_broken")}`}
      </span>
      ${command && html` <span class="muted">${t("health.command")} <code>${visible(command)}</code></span>`}
    </p>`;
}

/**
 * @param {Pick<Finding, "severity">[]} findings The worst first.
 * @returns {string | null} A text with the number of listed problems. Null: the worst of them is not critical.
 */
export function countsOf(findings) {
  if (findings[0]?.severity !== "bad") return null;
  return /** @type {const} */ (["bad", "warn"])
    .map((kind) => ({ kind, count: findings.filter((finding) => finding.severity === kind).length }))
    .filter(({ count }) => count > 0)
    .map(({ kind, count }) => t(`health.count.${kind}`, { count }))
    .join(t("health.count.and"));
}
