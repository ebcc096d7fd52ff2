/** Faults that stay on the list until they are over or somebody acknowledges them. */
import { toJson } from "../core/api.js";
import { t } from "../core/i18n.js";
import { href } from "../core/router.js";
import { visible } from "../core/text.js";
import { isPause, pausedText } from "../constraints/pauses.js";
import { reasonText } from "../definitions/runs.js";
import { durationText, nowMs, relativeText, steadyMs } from "../ui/formats.js";

/** @typedef {import("../../answers").Schemas["ListedConstraint"]} ListedConstraint */
/** @typedef {import("../../answers").Schemas["WorkerView"]} WorkerView */
/** @typedef {import("../../answers").Schemas["MasterView"]} Master */
/** @typedef {import("../../answers").Schemas["StatsPoint"]} StatsPoint */

/** @typedef {import("../../answers").Schemas["DefinitionView"]} Definition */
/** @typedef {import("./faults.js").Fault} Fault */

const STEPS = 10;
const MIN_GROWTH = 100;
const MOST = 20;

// A full constraint is a fault after LOOKS_TO_BEGIN answers in a row, because it may be full for a moment under load.
// The fault ends after LOOKS_TO_END answers in a row without it, because a single job may get through.
const LOOKS_TO_BEGIN = 3;
const LOOKS_TO_END = 2;
const LONG_MS = 60_000;
// After this many skipped instants in a row that nobody configured, a definition is faulty.
const SKIPS = 3;
const UNCHOSEN = ["overlap", "backlog_full", "argument_too_large"];

/** @param {import("../../answers").Schemas["RunView"][]} runs Newest first. */
const isSkipping = (runs) =>
  runs.length >= SKIPS &&
  runs.slice(0, SKIPS).every((run) => run.outcome === "skipped" && UNCHOSEN.includes(run.reason ?? ""));

/**
 * @typedef {{sinceMs: number, looks: number, misses: number, isFault: boolean, last: ListedConstraint}} Held `last`:
 *   the constraint when it last held jobs back.
 */

/** @type {Map<string, Held>} Constraints that hold jobs back, or did until lately. */
const held = new Map();
/** @type {ListedConstraint[] | null} The last answer that was counted in `held`. It is not counted again when the page draws it again. */
let counted = null;

/**
 * @param {{workers: WorkerView[], masters: Master[], constraints: ListedConstraint[], points: StatsPoint[],
 *   definitions?: Definition[]}} known `points`: the complete minutes of the last hour.
 *   `definitions`: those that are late, or missed their newest instant.
 * @returns {Fault[]}
 */
export const lastingFaults = ({ workers, masters, constraints, points, definitions = [] }) => [
  ...lateLeader(masters),
  ...detachedOf(workers),
  ...pausedOf(constraints),
  ...fullOf(constraints, nowMs()),
  ...troubledOf(definitions),
  ...growthOf(points),
];

/** @param {Master[]} masters @returns {Fault[]} */
function lateLeader(masters) {
  const late = masters.find((master) => master.role === "leader" && master.state === "stale");
  if (!late) return [];
  const text = t("fault.late_leader", {
    master: visible(late.node_id || late.id),
    seen: relativeText(Date.parse(late.last_seen_at)),
  });
  const link = { link: href("masters"), act: t("nav.masters") };
  return [{ kind: "bad", code: "late_leader", key: `late ${late.id}`, text, ...link }];
}

/**
 * Return the constraints that have kept jobs from starting for some time, except by a pause, which is a fault of its
 * own.
 * @param {ListedConstraint[]} constraints
 * @param {number} atMs
 * @returns {Fault[]} Those that hold the most jobs first.
 */
function fullOf(constraints, atMs) {
  if (constraints !== counted) count(constraints, atMs);
  return [...held.values()]
    .filter((one) => one.isFault)
    .sort((a, b) => (b.last.usage.held ?? 0) - (a.last.usage.held ?? 0))
    .slice(0, MOST)
    .map(({ last: one, sinceMs }) => {
      const { usage } = one;
      const [name, jobs] = [visible(one.name), usage.held ?? 0];
      const lastsMs = atMs - sinceMs;
      const text = one.key
        ? t("fault.full_values", { name, count: jobs, keys: usage.closed_keys ?? 0, all: usage.keys ?? 0 })
        : t("fault.full", { name, count: jobs });
      const since =
        lastsMs >= LONG_MS ? ` ${t("fault.full.since", { duration: durationText(steadyMs(lastsMs)) })}` : "";
      return {
        kind: "warn",
        code: "full",
        key: `full ${one.name}`,
        text: text + since,
        link: href("constraints", { name: one.name }),
        act: t("nav.constraints"),
      };
    });
}

/** @param {ListedConstraint[]} constraints A new answer. @param {number} atMs */
function count(constraints, atMs) {
  counted = constraints;
  const known = new Map(constraints.map((one) => [one.name, one]));
  for (const [name, one] of held) {
    const present = known.get(name);
    if (!present || !canBeFull(present)) held.delete(name);
    else if (isHolding(present)) continue;
    else if (!one.isFault || ++one.misses >= LOOKS_TO_END) held.delete(name);
  }
  for (const one of constraints) {
    if (!canBeFull(one) || !isHolding(one)) continue;
    const before = held.get(one.name) ?? { sinceMs: atMs, looks: 0, isFault: false };
    const looks = before.looks + 1;
    held.set(one.name, {
      ...before,
      looks,
      misses: 0,
      isFault: before.isFault || looks >= LOOKS_TO_BEGIN,
      last: one,
    });
  }
}

/** @param {ListedConstraint} one */
const isHolding = (one) => (one.usage.held ?? 0) > 0;

/** @param {ListedConstraint} one */
const canBeFull = (one) => one.enabled && one.mode === "enforce" && !one.paused;

/** @param {Definition[]} definitions @returns {Fault[]} */
function troubledOf(definitions) {
  return definitions.slice(0, MOST).flatMap((one) => {
    const { name, last_run: run } = one;
    const link = { link: href("definitions", { name }), act: t("nav.definitions") };
    const [newest] = one.runs ?? [];
    if (newest && isSkipping(one.runs ?? [])) {
      const cause = reasonText(newest.reason ?? "");
      const said = t("fault.skipping_definition", { name: visible(name), count: SKIPS, cause });
      return { kind: "warn", code: "skipping_definition", key: `skipping ${name}`, text: said, ...link };
    }
    const isMissed = run?.outcome === "missed";
    const at = isMissed ? run.due_at : one.next_due_at;
    if (at === null) return [];
    const code = isMissed ? "missed_instant" : "late_definition";
    const text = t(`fault.${code}`, { name: visible(name), due: relativeText(Date.parse(at)) });
    return { kind: isMissed ? "warn" : "bad", code, key: `definition ${name} ${at}`, text, ...link };
  });
}

/** @param {WorkerView} worker */
const processOf = (worker) => visible(`${worker.node_id || worker.id}${worker.pid ? `:${worker.pid}` : ""}`);

/**
 * @param {WorkerView} gone
 * @param {WorkerView[]} workers
 * @returns {WorkerView | undefined} The worker that took its place: one on the same machine, for the same jobs, which began after it fell
 *   silent. Nothing is left to do then, if it holds no job any more.
 */
const successorOf = (gone, workers) =>
  workers.find(
    (worker) =>
      gone.busy === 0 &&
      worker.state === "fresh" &&
      worker.node_id === gone.node_id &&
      Date.parse(worker.registered_at) > Date.parse(gone.last_seen_at) &&
      gone.names.every((name) => worker.names.includes(name)),
  );

/** @param {WorkerView[]} workers @returns {Fault[]} Workers that fell silent until they were detached, each with what it still holds. */
function detachedOf(workers) {
  return workers
    .filter((worker) => worker.state === "detached" && worker.detached_by === "silence")
    .slice(0, MOST)
    .map((worker) => {
      const seen = relativeText(Date.parse(worker.last_seen_at));
      const link = { link: href("workers", { id: worker.id }), act: t("fault.dead_worker.act") };
      const successor = successorOf(worker, workers);
      if (successor) {
        const names = { worker: processOf(worker), successor: processOf(successor), seen };
        return { kind: "info", key: `dead ${worker.id}`, text: t("fault.replaced_worker", names), ...link };
      }
      const text = t(worker.busy > 0 ? "fault.dead_worker" : "fault.dead_worker.idle", {
        worker: processOf(worker),
        seen,
        count: worker.busy,
      });
      // A dead worker without jobs delays no job.
      return {
        kind: worker.busy > 0 ? "bad" : "warn",
        code: "dead_worker",
        key: `dead ${worker.id}`,
        text,
        ...link,
      };
    });
}

/** @param {ListedConstraint[]} constraints @returns {Fault[]} A pause that somebody forgot looks like a queue that stands still. */
function pausedOf(constraints) {
  return constraints
    .filter((one) => one.enabled && one.mode === "enforce")
    .flatMap(
      /** @param {ListedConstraint} one @returns {Fault[]} */ (one) => {
        const since = relativeText(Date.parse(one.changed_at));
        const link = { link: href("constraints", { name: one.name }), act: t("nav.constraints") };
        if (isPause(one.name))
          return [
            {
              // If somebody has given a reason and an end, nobody has to act.
              kind: one.reason && one.expires_at ? "info" : "warn",
              code: "pause",
              key: `paused ${one.name}`,
              text: pauseText(one),
              ...link,
            },
          ];
        if (one.paused)
          return [
            {
              kind: "warn",
              code: "paused",
              key: `paused ${one.name} ${one.etag}`,
              text: t("fault.paused", { name: visible(one.name), since }),
              ...link,
            },
          ];
        const values = (one.overrides ?? []).filter((override) => override.paused);
        if (values.length === 0) return [];
        const shown = values
          .slice(0, 3)
          .map((override) =>
            visible((override.match ? toJson(override.match) : String(override.value)).slice(0, 60)),
          );
        return [
          {
            kind: "warn",
            code: "paused_values",
            key: `paused ${one.name} ${one.etag}`,
            text: t("fault.paused_values", {
              name: visible(one.name),
              values: shown.join(", ") + (values.length > shown.length ? ", …" : ""),
              count: values.length,
              since,
            }),
            ...link,
          },
        ];
      },
    )
    .slice(0, MOST);
}

/** @param {ListedConstraint} one @returns {string} What is paused, since when and by whom, why and until when. */
function pauseText(one) {
  const text = t("fault.pause", {
    what: pausedText(one.matcher),
    since: relativeText(Date.parse(one.created_at)),
    who: visible(one.created_by || "–"),
  });
  const until = one.expires_at && t("fault.pause.until", { until: relativeText(Date.parse(one.expires_at)) });
  return [text, one.reason && `“${visible(one.reason).slice(0, 200)}”`, until].filter(Boolean).join(" ");
}

/** @param {StatsPoint[]} points @returns {Fault[]} */
function growthOf(points) {
  const backlog = points.slice(-STEPS).map((point) => point.backlog);
  const [first, last] = [backlog[0], backlog.at(-1)];
  if (backlog.length < STEPS || typeof first !== "number" || typeof last !== "number") return [];
  const rises = backlog.filter((value, at) => {
    const before = backlog[at - 1];
    return typeof value === "number" && typeof before === "number" && value > before;
  }).length;
  if (last - first < Math.max(MIN_GROWTH, first / 2) || rises < (STEPS * 2) / 3) return [];
  return [
    {
      kind: "warn",
      code: "growth",
      key: "growth",
      text: t("fault.growth", { first, last, minutes: STEPS }),
      link: href("names"),
      act: t("nav.names"),
    },
  ];
}
