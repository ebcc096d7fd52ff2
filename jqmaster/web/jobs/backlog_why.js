/** Shows why ready jobs wait: each cause with its count and a link. The jobs are those of the queue, of a name or of a batch. */
import { get } from "../core/api.js";
import { number, t, tOr } from "../core/i18n.js";
import { html } from "../core/lib.js";
import { useResource } from "../core/resource.js";
import { href } from "../core/router.js";
import { visible } from "../core/text.js";
import { whoText } from "../identity/value_words.js";
import { durationText } from "../ui/formats.js";

/** @typedef {import("../../answers").Schemas["WaitCauseView"]} WaitCause */

const PAUSE_PREFIX = "pause-";
const MAX_VALUE = 60;
const MAX_REASON = 120;
/** Units of rates that have a short form. @type {Record<number, string>} */
const PER = { 1: "s", 60: "min", 3600: "h", 86_400: "d" };

/** @param {{whose: {name?: string, batch?: string}, class?: string}} props */
export function BacklogWhy({ whose, class: more = "" }) {
  const { data } = useResource((signal) => get("api/jobs/why", whose, signal), [JSON.stringify(whose)], {
    events: ["jobs", "constraints", "workers"],
    leastMs: 10_000,
    everyMs: 15_000,
  });
  const causes = data?.causes ?? [];
  if (!data || causes.length === 0)
    return html`<p class=${`backlog-why ${more}`} aria-hidden="true">${" "}</p>`;
  const head = t(data.is_exact ? "backlog.waits" : "backlog.waits.at_least", { count: data.ready });
  const part = data.examined < data.ready ? ` ${t("backlog.part", { count: data.examined })}` : "";
  return html`<p class=${`backlog-why ${more}`}>
      ${head}
      ${part} ${causes.map(
        (cause, at) =>
          html`<span key=${keyOf(cause)}>${at > 0 && t("backlog.and")}<a href=${addressOf(cause)}>${causeText(cause)}</a></span>`,
      )}
    </p>`;
}

/** @param {WaitCause} cause */
const keyOf = ({ code, constraint, key_value, kind }) => JSON.stringify([code, constraint, key_value, kind]);

/** @param {WaitCause} cause */
const addressOf = ({ constraint, job_id }) =>
  constraint ? href("constraints", { name: constraint }) : href("job", { id: job_id });

/** @param {WaitCause} cause @returns {string} The cause in words, such as `880 for mail-per-host at globex (60/min, about 15 min)`. */
export function causeText(cause) {
  const count = number(cause.count);
  if (cause.constraint === null)
    return tOr(`backlog.${cause.code}`, t("backlog.others")).replace("{count}", count);
  // A pause is a constraint with a generated name, so leave out its name.
  if (cause.constraint.startsWith(PAUSE_PREFIX)) return `${count} ${howText(cause)}`;
  const name = visible(cause.constraint);
  const what =
    cause.key_value === null
      ? name
      : t("backlog.at", { name, value: visible(cause.key_value).slice(0, MAX_VALUE) });
  return t("backlog.for", { count, what, how: howText(cause) });
}

/** @param {WaitCause} cause */
function howText({ kind, limit, usage, period_s, eta_s, paused_by, reason }) {
  if (kind === "paused") {
    const who = paused_by
      ? t("backlog.paused_by", { who: visible(whoText(paused_by)) })
      : t("backlog.paused");
    return reason ? `${who}: ${visible(reason).slice(0, MAX_REASON)}` : who;
  }
  if (eta_s !== null && limit !== null && period_s !== null) {
    const unit = PER[period_s] ? t(`unit.${PER[period_s]}`) : durationText(period_s * 1000);
    return t("backlog.rate", { limit, unit, eta: durationText(eta_s * 1000, true) });
  }
  if (limit !== null) return t("backlog.full", { used: usage ?? 0, limit });
  return t("backlog.held");
}
