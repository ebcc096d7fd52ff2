/**
 * Sentences that say why a job does not run, in the reader's language. They are made from the fields of the verdicts.
 * The page shows links and times next to them.
 */
import { labelsText } from "../workers/labels.js";
import { number, t, tOr } from "../core/i18n.js";
import { visible } from "../core/text.js";
import { isPause } from "../constraints/pauses.js";
import { pref } from "../core/prefs.js";
import { whoText } from "../identity/value_words.js";
import { clockText, durationText, relativeText } from "../ui/formats.js";

/** @typedef {import("../../answers").Schemas["WhyAnswer"]} Why */
/** @typedef {import("../../answers").Schemas["WhyConstraint"]} WhyConstraint */
/** @typedef {Why["verdicts"][number]} AnyVerdict */
/** @template {AnyVerdict["code"]} Code @typedef {Extract<AnyVerdict, {code: Code}>} Verdict */

/** Maximum number of characters of a key value in the name of a constraint. */
const MAX_VALUE = 60;
/** The fields of a verdict that say why workers are unavailable. */
const UNAVAILABLE = /** @type {const} */ (["full", "draining", "broken", "paused", "refusing", "pulling"]);
/** Maximum number of jobs that one sentence names. */
const MAX_NAMED_JOBS = 3;

/** @param {Verdict<"no_worker">} verdict */
function noWorkerText(verdict) {
  const known = verdict.stale + verdict.detached;
  const key =
    known > 0
      ? "why.text.no_worker.silent"
      : verdict.similar
        ? "why.text.no_worker.similar"
        : "why.text.no_worker";
  return t(key, { name: visible(verdict.name), count: known, similar: visible(verdict.similar ?? "") });
}

/** @param {Verdict<"no_matching_worker">["nearest"][number]} one @returns {string} The worker, and the labels that it lacks. */
function nearText({ node_id, worker_id, missing }) {
  const lacks = Object.entries(missing).map(([label, { wanted, has }]) =>
    t(has === null ? "why.text.near.none" : "why.text.near.other", {
      label: visible(label),
      has: visible(has ?? ""),
      wanted: visible(wanted),
    }),
  );
  return t(node_id ? "why.text.near.host" : "why.text.near", {
    worker: visible(node_id || worker_id),
    lacks: lacks.join(", "),
  });
}

/**
 * @param {AnyVerdict} verdict
 * @param {Why} why The whole answer.
 * @param {{nameOf?: (id: string) => string, question?: string}} [known] `nameOf`: returns the name of another job;
 *   empty if it is unknown. `question`: the question to people.
 * @returns {string} The verdict in words. If this page does not know the verdict, the master's own text.
 */
export function verdictText(verdict, why, { nameOf = () => "", question = "" } = {}) {
  switch (verdict.code) {
    case "constraint":
      return constraintText(verdict, why);
    case "scheduled":
    case "retrying":
      return dueText(verdict);
    case "ahead":
      return aheadText(verdict);
    case "no_worker":
      return noWorkerText(verdict);
    case "no_matching_worker":
      return t("why.text.no_matching_worker", {
        name: visible(verdict.name),
        count: verdict.workers,
        labels: visible(labelsText(verdict.requires)),
        nearest: verdict.nearest.map(nearText).join("; "),
      });
    case "workers_unavailable":
      return unavailableText(verdict);
    case "running":
      return runningText(verdict);
    case "awaiting_jobs":
      return t("why.text.awaiting_jobs", {
        count: verdict.count,
        jobs:
          verdict.jobs
            .slice(0, MAX_NAMED_JOBS)
            .map(
              (job) =>
                `${nameOf(job.id) || `…${job.id.slice(-10)}`} (${job.state ? t(`state.${job.state}`) : "–"})`,
            )
            .join(", ") + (verdict.count > MAX_NAMED_JOBS ? ", …" : ""),
      });
    case "awaiting_callback":
      return verdict.answered
        ? t("why.text.answered", { attempt: verdict.attempt })
        : t(question ? "why.text.awaiting_answer" : "why.text.awaiting_callback", {
            attempt: verdict.attempt,
            question: visible(question),
            due: verdict.due_at ? relativeText(Date.parse(verdict.due_at)) : "–",
          });
    default:
      return tOr(`why.text.${verdict.code}`, visible(verdict.text));
  }
}

/** @param {Verdict<"running">} verdict */
function runningText({ confirmed, attempt, since, earlier_end }) {
  const text = t(confirmed ? "why.text.running" : "why.text.offered", {
    attempt,
    since: relativeText(Date.parse(since)),
  });
  return earlier_end ? `${text} ${t("why.text.earlier_end")}` : text;
}

/** @param {Verdict<"scheduled" | "retrying">} verdict */
function dueText(verdict) {
  const text = t(`why.text.${verdict.code}`, {
    due: relativeText(Date.parse(verdict.due_at)),
    count: verdict.failures,
  });
  return verdict.put_off ? `${text} ${t("why.text.put_off", { reason: visible(verdict.put_off) })}` : text;
}

/**
 * @param {"concurrency" | "rate"} kind
 * @param {NonNullable<WhyConstraint["weight"]>} weight
 * @param {Partial<WhyConstraint>} applied A constraint that counts units.
 */
function unitsReason(kind, weight, { concurrency, rate }) {
  const isRate = kind === "rate";
  const reason = t(isRate ? "why.text.rate.units" : "why.text.concurrency.units", {
    used: number((isRate ? weight.in_window : weight.running) ?? 0),
    limit: number((isRate ? rate?.limit : concurrency) ?? 0),
    unit: weight.unit,
    job: number(weight.job),
    ...(isRate && rate && { period: durationText(rate.period_s * 1000) }),
  });
  return weight.is_too_heavy ? `${reason} ${t("why.text.too_heavy")}` : reason;
}

/**
 * @param {{name: string, key_value?: unknown}} verdict
 * @param {{constraints: WhyConstraint[]}} why
 * @returns {Partial<WhyConstraint>} The constraint of a verdict, as it applies to the job.
 */
const appliedTo = (verdict, why) =>
  why.constraints.find((one) => one.name === verdict.name && one.key_value === verdict.key_value) ?? {};

/** @param {string} at ISO 8601. @returns {string} The time of day, in the time zone that the reader chose. */
const clockAt = (at) => clockText(Date.parse(at), pref("times", "relative"));

/** @param {Verdict<"constraint">} verdict A pause. @returns {string} Who paused the jobs, until when and why. */
function pauseText({ paused_by, opens_at, reason, waiting }) {
  const by = paused_by ? t("why.text.pause.by", { who: visible(whoText(paused_by)) }) : "";
  const until = opens_at
    ? t("why.text.pause.until", { time: clockAt(opens_at) })
    : t("why.text.pause.resumed");
  const why = reason ? t("why.text.pause.reason", { reason: visible(reason) }) : "";
  const others = waiting > 1 ? ` ${t("why.text.pause.waiting", { count: waiting })}` : "";
  return t("why.text.pause", { by, until, reason: why }) + others;
}

/** @param {Verdict<"constraint">} verdict @param {Why} why */
function constraintText(verdict, why) {
  if (verdict.kind === "paused" && isPause(verdict.name)) return pauseText(verdict);
  const applied = appliedTo(verdict, why);
  const what = verdict.key
    ? `${visible(verdict.name)} (${visible(verdict.key)} = ${visible(String(verdict.key_value ?? "")).slice(0, MAX_VALUE)})`
    : visible(verdict.name);
  const reasons = verdict.kinds.map((kind) => {
    const isFirst = kind === verdict.kind;
    if (applied.weight && (kind === "concurrency" || kind === "rate"))
      return unitsReason(kind, applied.weight, applied);
    if (kind === "concurrency")
      return t("why.text.concurrency", {
        used: (isFirst ? verdict.usage : applied.running) ?? 0,
        limit: (isFirst ? verdict.limit : applied.concurrency) ?? 0,
      });
    if (kind === "rate")
      return t("why.text.rate", {
        used: (isFirst ? verdict.usage : applied.starts) ?? 0,
        limit: (isFirst ? verdict.limit : applied.rate?.limit) ?? 0,
        period: durationText(((isFirst ? verdict.period_s : applied.rate?.period_s) ?? 0) * 1000),
      });
    if (kind === "paused" && verdict.opens_at)
      return t("why.text.paused.until", { time: clockAt(verdict.opens_at) });
    return tOr(`why.text.${kind}`, kind);
  });
  const others = verdict.waiting > 1 ? [t("why.text.waiting", { count: verdict.waiting })] : [];
  const wait = expectedWaitMs(verdict, why);
  const eta = wait === null ? [] : [t("why.text.eta", { duration: durationText(wait) })];
  return [t("why.text.constraint", { what, reasons: reasons.join("; ") }), ...others, ...eta].join(" ");
}

/**
 * Return how long a rate limit takes to let the jobs before this one start.
 * @param {Verdict<"constraint">} verdict
 * @param {Pick<Why, "verdicts" | "constraints" | "as_of">} why
 * @returns {number | null} null if something other than a rate decides.
 */
export function expectedWaitMs(verdict, why) {
  if (verdict.kinds.join() !== "rate" || !verdict.limit || !verdict.opens_at) return null;
  // With weights, the wait cannot be computed: nobody knows the weights of the jobs before this one.
  if (appliedTo(verdict, why).weight) return null;
  const ahead = why.verdicts.find((one) => one.code === "ahead");
  if (!ahead) return null;
  const opensMs = Math.max(0, Date.parse(verdict.opens_at) - Date.parse(why.as_of));
  return opensMs + Math.floor(ahead.count / verdict.limit) * (verdict.period_s ?? 0) * 1000;
}

/** @param {Verdict<"ahead">} verdict */
function aheadText(verdict) {
  if (!verdict.count) return t("why.text.ahead.unknown");
  const others = Object.entries(verdict.others).slice(0, 3);
  const text = t(`why.text.ahead.${verdict.bound}`, { count: verdict.count });
  if (others.length === 0) return text;
  return `${text} ${t("why.text.ahead.others", {
    names: others.map(([name, count]) => `${visible(name)} (${number(Number(count))})`).join(", "),
  })}`;
}

/** @param {Verdict<"no_worker"> | Verdict<"workers_unavailable">} verdict */
export const workersText = (verdict) =>
  verdict.code === "no_worker" ? noWorkerText(verdict) : unavailableText(verdict);

/** @param {Verdict<"workers_unavailable">} verdict */
function unavailableText(verdict) {
  const parts = UNAVAILABLE.filter((key) => verdict[key]).map((key) =>
    t(`why.text.workers.${key}`, { count: verdict[key] ?? 0 }),
  );
  return t("why.text.workers_unavailable", {
    name: visible(verdict.name),
    count: verdict.workers,
    reasons: parts.join(", "),
  });
}
