/** The faults that follow from the current figures of the queue, each with a link to its cause. */
import { number, t } from "../core/i18n.js";
import { href } from "../core/router.js";
import { visible } from "../core/text.js";
import { bytesText, durationText, steadyMs } from "../ui/formats.js";

/** @typedef {import("../../answers").Schemas["Stats"]} Stats */
/** @typedef {import("../../answers").Schemas["NameStats"]} NameStats */
/** @typedef {import("../core/router.js").PageName} PageName */
/**
 * @typedef {keyof typeof import("./runbooks.js").RUNBOOKS} FaultCode
 * @typedef {{text: string, link?: string, act?: string, key: string} & ({kind: "bad" | "warn", code: FaultCode} | {kind: "info", code?: FaultCode})} Fault
 *   `key`: keeps an acknowledged fault hidden until it is over. `code`: finds its section in docs/runbooks.md.
 */

export const WAIT_WARN_MS = 60_000;
export const WAIT_BAD_MS = 600_000;
export const MEMORY_WARN = 0.8;
export const MEMORY_BAD = 0.95;
const LATENCY_WARN_MS = 100;
const MAX_ORPHANS = 5;
export const LEVELS = ["besteffort", "fsync", "fsync+quorum"];

/**
 * Return the faults, worst first.
 * @param {Stats} stats
 * @param {NameStats[]} failing Names with failures lately, most first.
 * @param {NameStats[]} orphans Names with waiting jobs that no live worker knows, most first.
 * @returns {Fault[]}
 */
export function faultsOf(stats, failing, orphans) {
  /** @type {Fault[]} */
  const faults = [];
  const { masters, workers, store, counts } = stats;
  /**
   * @param {"bad" | "warn"} kind
   * @param {FaultCode} code
   * @param {string} text
   * @param {PageName} [page]
   * @param {Record<string, string>} [query]
   * @param {string} [act]
   * @param {string} [subject]
   */
  const add = (kind, code, text, page, query, act, subject) =>
    faults.push({
      kind,
      code,
      key: [kind, code, subject].filter(Boolean).join(" "),
      text,
      ...(page && { link: href(page, query), act: act ?? t(`nav.${page}`) }),
    });
  const waiting = counts.ready ?? 0;
  if (masters.leader_id === null) add("bad", "no_leader", t("fault.no_leader"), "masters");
  for (const fault of store.faults ?? [])
    add("bad", "store", t("fault.store", { fault: visible(fault) }), "settings", {}, undefined, fault);
  for (const fault of stats.duty_faults ?? [])
    add("warn", "duty", t("fault.duty", { fault: visible(fault) }), "masters", {}, undefined, fault);
  if (LEVELS.indexOf(store.durability_available) < LEVELS.indexOf(store.durability)) {
    const levels = { wanted: visible(store.durability), given: visible(store.durability_available) };
    add("bad", "durability", t("fault.durability", levels));
  }
  if (workers.fresh === 0 && waiting > 0)
    add("bad", "no_worker", t("fault.no_worker", { count: waiting }), "workers");
  else
    for (const name of orphans.slice(0, MAX_ORPHANS)) {
      const text = t("fault.orphan", { name: visible(name.name), count: name.ready });
      add(
        "bad",
        "orphan",
        text,
        "jobs",
        { state: "ready", name: name.name },
        t("fault.orphan.act"),
        name.name,
      );
    }
  const mostBytes = store.max_memory_bytes ?? 0;
  const memory = mostBytes > 0 ? store.used_memory_bytes / mostBytes : 0;
  if (memory >= MEMORY_WARN) {
    const [used, most] = [bytesText(store.used_memory_bytes), bytesText(mostBytes)];
    const text = t("fault.memory", { share: percent(memory), used, most });
    add(memory >= MEMORY_BAD ? "bad" : "warn", "memory", text);
  }
  // Report the oldest job that could start. A job that a limit holds back waits on purpose; a limit that does so for
  // long is a fault itself, and so is a name that no worker serves.
  const oldest = startableOf(stats);
  const isServed = workers.fresh > 0 && !orphans.some((name) => name.name === oldest.name);
  if (oldest.wait_ms >= WAIT_WARN_MS && isServed) {
    const values = { name: visible(oldest.name), duration: durationText(steadyMs(oldest.wait_ms)) };
    const kind = oldest.wait_ms >= WAIT_BAD_MS ? "bad" : "warn";
    add(kind, "wait", t("fault.wait", values), "job", { id: oldest.job_id }, t("fault.wait.act"));
  }
  for (const name of failing) {
    const figures = { count: name.failed, share: percent(1 - (name.success_share ?? 1)) };
    const text = t("fault.failing", { name: visible(name.name), ...figures });
    add("warn", "failing", text, "failures", { name: name.name }, undefined, name.name);
  }
  if (workers.stale > 0) {
    const text = t("fault.stale_workers", { count: workers.stale });
    add("warn", "stale_workers", text, "workers", { state: "stale" });
  }
  if (masters.stale > 0)
    add("warn", "stale_masters", t("fault.stale_masters", { count: masters.stale }), "masters");
  const latencyMs = store.latency_ms ?? 0;
  if (latencyMs >= LATENCY_WARN_MS)
    add("warn", "latency", t("fault.latency", { duration: durationText(latencyMs) }));
  return faults;
}

/** @param {Stats} stats @returns {{job_id: string, name: string, wait_ms: number}} The job that waits longest although nothing holds it back. */
export const startableOf = (stats) => stats.oldest_startable ?? { job_id: "", name: "", wait_ms: 0 };

/** @param {number} share */
export const percent = (share) =>
  number(share, { style: "percent", maximumFractionDigits: share > 0 && share < 0.1 ? 1 : 0 });
