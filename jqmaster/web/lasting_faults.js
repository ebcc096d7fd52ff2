/** Faults that stay among what is wrong until they are over or somebody acknowledges them. */
import { t } from "./i18n.js";
import { href } from "./router.js";
import { visible } from "./text.js";
import { isPause, pausedText } from "./pauses.js";
import { durationText, nowMs, relativeText } from "./ui/formats.js";

/** @typedef {import("./pages/overview.js").Fault} Fault */

const STEPS = 10;
const LEAST_GROWTH = 100;
const MOST = 20;

// A gate that closes for a moment under load is no fault.
const FULL_MS = 4_000;
const LONG_MS = 60_000;

/** @type {Map<string, number>} Since when each constraint was seen to hold jobs back, in Unix ms, as long as it does. */
const heldSince = new Map();

/**
 * @param {{workers: any[], masters: any[], constraints: any[], points: any[]}} known `points`: the complete minutes of the last hour.
 * @returns {Fault[]}
 */
export const lastingFaults = ({ workers, masters, constraints, points }) => [
  ...lateLeader(masters),
  ...deadOf(workers),
  ...pausedOf(constraints),
  ...fullOf(constraints, nowMs()),
  ...growthOf(points),
];

/** @param {any[]} masters @returns {Fault[]} */
function lateLeader(masters) {
  const late = masters.find((master) => master.role === "leader" && master.state === "stale");
  if (!late) return [];
  const text = t("fault.late_leader", {
    master: visible(late.node_id || late.id),
    seen: relativeText(Date.parse(late.last_seen_at)),
  });
  return [{ kind: "bad", key: `late ${late.id}`, text, link: href("masters"), act: t("nav.masters") }];
}

/**
 * Constraints that keep jobs from starting, other than by a pause, which is a fault of its own.
 * @param {any[]} constraints
 * @param {number} atMs
 * @returns {Fault[]} Those that hold the most jobs first.
 */
export function fullOf(constraints, atMs) {
  const holding = constraints.filter(
    (one) => one.enabled && one.mode === "enforce" && !one.paused && one.usage.held > 0,
  );
  const names = new Set(holding.map((one) => one.name));
  for (const name of heldSince.keys()) if (!names.has(name)) heldSince.delete(name);
  for (const name of names) if (!heldSince.has(name)) heldSince.set(name, atMs);
  return holding
    .filter((one) => atMs - (heldSince.get(one.name) ?? atMs) >= FULL_MS)
    .sort((a, b) => b.usage.held - a.usage.held)
    .slice(0, MOST)
    .map((one) => {
      const { held, keys, closed_keys } = one.usage;
      const name = visible(one.name);
      const lastsMs = atMs - (heldSince.get(one.name) ?? atMs);
      const text = one.key
        ? t("fault.full_values", { name, count: held, keys: closed_keys, all: keys })
        : t("fault.full", { name, count: held });
      const since =
        lastsMs >= LONG_MS ? ` ${t("fault.full.since", { duration: durationText(lastsMs) })}` : "";
      return {
        kind: "warn",
        key: `full ${one.name}`,
        text: text + since,
        link: href("constraints", { name: one.name }),
        act: t("nav.constraints"),
      };
    });
}

/** @param {any[]} workers @returns {Fault[]} Workers that fell silent until they were detached, each with what it still holds. */
function deadOf(workers) {
  return workers
    .filter((worker) => worker.state === "detached" && worker.detached_by === "silence")
    .slice(0, MOST)
    .map((worker) => ({
      kind: "bad",
      key: `dead ${worker.id}`,
      text: t("fault.dead_worker", {
        worker: visible(`${worker.node_id || worker.id}${worker.pid ? `:${worker.pid}` : ""}`),
        seen: relativeText(Date.parse(worker.last_seen_at)),
        count: worker.busy,
      }),
      link: href("workers", { id: worker.id }),
      act: t("fault.dead_worker.act"),
    }));
}

/** @param {any[]} constraints @returns {Fault[]} A pause that somebody forgot looks like a queue that stands still. */
function pausedOf(constraints) {
  return constraints
    .filter((one) => one.enabled && one.mode === "enforce")
    .flatMap((one) => {
      const since = relativeText(Date.parse(one.changed_at));
      const link = { link: href("constraints", { name: one.name }), act: t("nav.constraints") };
      if (isPause(one.name))
        return [
          { kind: /** @type {const} */ ("warn"), key: `paused ${one.name}`, text: pauseText(one), ...link },
        ];
      if (one.paused)
        return [
          {
            kind: /** @type {const} */ ("warn"),
            key: `paused ${one.name} ${one.etag}`,
            text: t("fault.paused", { name: visible(one.name), since }),
            ...link,
          },
        ];
      const values = /** @type {any[]} */ (one.overrides ?? []).filter((override) => override.paused);
      if (values.length === 0) return [];
      const shown = values.slice(0, 3).map((override) => visible(String(override.value).slice(0, 60)));
      return [
        {
          kind: /** @type {const} */ ("warn"),
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
    })
    .slice(0, MOST);
}

/** @param {any} one @returns {string} What is paused, since when and by whom, why and until when. */
function pauseText(one) {
  const text = t("fault.pause", {
    what: pausedText(one.matcher),
    since: relativeText(Date.parse(one.created_at)),
    who: visible(one.created_by || "–"),
  });
  const until = one.expires_at && t("fault.pause.until", { until: relativeText(Date.parse(one.expires_at)) });
  return [text, one.reason && `“${visible(one.reason).slice(0, 200)}”`, until].filter(Boolean).join(" ");
}

/** @param {any[]} points @returns {Fault[]} */
function growthOf(points) {
  const backlog = points.slice(-STEPS).map((point) => point.backlog);
  const [first, last] = [backlog[0], backlog.at(-1)];
  if (backlog.length < STEPS || typeof first !== "number" || typeof last !== "number") return [];
  const rises = backlog.filter((value, at) => at > 0 && value > backlog[at - 1]).length;
  if (last - first < Math.max(LEAST_GROWTH, first / 2) || rises < (STEPS * 2) / 3) return [];
  return [
    {
      kind: "warn",
      key: "growth",
      text: t("fault.growth", { first, last, minutes: STEPS }),
      link: href("names"),
      act: t("nav.names"),
    },
  ];
}
