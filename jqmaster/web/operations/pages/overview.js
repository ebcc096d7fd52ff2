/** The page for 3 a.m.: what is wrong, worst first; then how much there is, how fast it goes, and who does it. */
import { html, useEffect, useMemo, useRef, useState } from "../../core/lib.js";
import { Problem, get, may } from "../../core/api.js";
import { curl } from "../../core/curl.js";
import { number, t, tOr } from "../../core/i18n.js";
import { pushedOr, useLatest, useResource } from "../../core/live.js";
import { go, href } from "../../core/router.js";
import { OUTCOMES } from "../../core/states.js";
import { visible } from "../../core/text.js";
import { Chart, completePoints } from "../../ui/charts.js";
import { CompareWith, comparedPeriod, comparedWith, endsPerS, useEarlier } from "../../ui/comparison.js";
import { Bar, Button, Empty, ErrorBox, Loading } from "../../ui/controls.js";
import { BacklogWhy } from "../../jobs/backlog_why.js";
import { withIgnored } from "../../jobs/failure_groups.js";
import { HealthLine, useHealth } from "../health_line.js";
import { SnoozeDialog, useSnoozed } from "../snoozes.js";
import { lastingFaults } from "../lasting_faults.js";
import { useMarks } from "../marks.js";
import { usePref } from "../../core/prefs.js";
import { RunbookLink } from "../runbook_link.js";
import {
  Badge,
  Bytes,
  Duration,
  Num,
  State,
  Text,
  bytesText,
  durationText,
  perSText,
  steadyMs,
  tellTime,
} from "../../ui/formats.js";
import { Icon } from "../../ui/icons.js";
import { Table } from "../../ui/tables.js";

const SPANS = ["1h", "6h", "24h", "7d"];
const WAIT_WARN_MS = 60_000;
const WAIT_BAD_MS = 600_000;
const MEMORY_WARN = 0.8;
const MEMORY_BAD = 0.95;
const LATENCY_WARN_MS = 100;
// Names that fail less than this, or hardly ran, are in the list of names, not among the faults.
const FAILING_SHARE = 0.05;
const FAILING_LEAST = 3;
const MOST_NAMES = 5;
const LEAST_FAULT_ROWS = 2;
// If there are more faults, each has one line.
const MOST_TALL_FAULTS = 3;
const FORGET_MS = 15_000;
// How often the sources of faults are polled, so that each fault is shown within ten seconds. A full constraint takes
// three answers.
const FAULTS_MS = 4_000;
const FULL_MS = 2_500;
const PATIENCE_MS = 1_500;
/** @type {never[]} Always the same list, since every new list counts as an answer. */
const NONE = [];
/** The whole queue. */
const ALL = {};
const KINDS = ["bad", "warn", "info"];
/** The states of workers that are told only if some are in them. */
const UNUSUAL = /** @type {const} */ (["stale", "draining", "detached"]);
const LEVELS = ["besteffort", "fsync", "fsync+quorum"];

/** @typedef {import("../../../answers").Schemas["StatsHistory"]} History */
/** @typedef {import("../../../answers").Schemas["StatsPoint"]} StatsPoint */
/** @typedef {import("../../../answers").Schemas["Stats"]} Stats */
/** @typedef {import("../../../answers").Schemas["NameStats"]} NameStats */
/** @typedef {import("../../../answers").Schemas["WorkerView"]} Worker */
/** @typedef {import("../../../answers").Schemas["MasterView"]} Master */
/** @typedef {import("../../core/lib.js").Node} Node */
/** @typedef {import("../../core/router.js").PageName} PageName */
/**
 * @typedef {keyof typeof import("../runbooks.js").RUNBOOKS} FaultCode
 * @typedef {{text: string, link?: string, act?: string, key: string} & ({kind: "bad" | "warn", code: FaultCode} | {kind: "info", code?: FaultCode})} Fault
 *   `key`: keeps an acknowledged fault hidden until it is over. `code`: finds its section in docs/runbooks.md.
 */

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
    for (const name of orphans) {
      const text = t("fault.orphan", { name: visible(name.name), count: name.ready });
      add("bad", "orphan", text, "jobs", { state: "ready", name: name.name }, t("fault.wait.act"), name.name);
    }
  const mostBytes = store.max_memory_bytes ?? 0;
  const memory = mostBytes > 0 ? store.used_memory_bytes / mostBytes : 0;
  if (memory >= MEMORY_WARN) {
    const [used, most] = [bytesText(store.used_memory_bytes), bytesText(mostBytes)];
    const text = t("fault.memory", { share: percent(memory), used, most });
    add(memory >= MEMORY_BAD ? "bad" : "warn", "memory", text);
  }
  // A job that a limit holds back waits as somebody decided: the limit is among the faults if it holds for long.
  const oldest = startableOf(stats);
  if (oldest.wait_ms >= WAIT_WARN_MS) {
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
const startableOf = (stats) => stats.oldest_startable ?? { job_id: "", name: "", wait_ms: 0 };

/** @param {number} share */
const percent = (share) =>
  number(share, { style: "percent", maximumFractionDigits: share > 0 && share < 0.1 ? 1 : 0 });

/** @param {{query: Record<string, string>, go: typeof import("../../core/router.js").go, session: import("../../core/api.js").Session}} props */
export function Page({ query, session }) {
  const span = SPANS.find((one) => one === query["span"]) ?? "1h";
  const asked = useResource((signal) => pushedOr("stats", () => get("api/stats", {}, signal)), []);
  const pushed = useLatest("stats");
  const stats = newer(pushed, asked.data);
  useEffect(() => {
    if (stats) tellTime(stats.at);
  }, [stats?.at]);
  const compared = comparedPeriod(query["compare"], span ?? "");
  const earlier = useEarlier(compared, span ?? "");
  const history = useResource((signal) => get("api/stats/history", { span }, signal), [span], {
    events: ["stats"],
    leastMs: span === "1h" ? 10_000 : 60_000,
    everyMs: 30_000,
  });
  const names = useResource(
    (signal) =>
      get("api/names", { span: "1h", sort: "failed", limit: 5 }, signal).then((answer) =>
        withIgnored(answer, signal),
      ),
    [],
    { events: ["jobs"], leastMs: 10_000, everyMs: 30_000 },
  );
  const masters = useResource((signal) => get("api/masters", {}, signal), [], {
    events: ["masters"],
    leastMs: 2000,
    everyMs: 15_000,
  });

  const waiting = useResource(
    (signal) => get("api/names", { span: "1h", sort: "ready", limit: 20 }, signal),
    [],
    { events: ["jobs"], leastMs: FAULTS_MS, everyMs: 30_000 },
  );
  const workers = useResource((signal) => get("api/workers", {}, signal), [], {
    events: ["workers"],
    leastMs: 2000,
    pollMs: 5000,
  });
  const constraints = useResource((signal) => get("api/constraints", {}, signal), [], {
    events: ["constraints"],
    leastMs: 2000,
    pollMs: FULL_MS,
  });
  // The first page does not wait for the definitions.
  const [isSettled, setSettled] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(true), FAULTS_MS);
    return () => clearTimeout(timer);
  }, []);
  const definitions = useResource(
    (signal) =>
      isSettled
        ? get("api/definitions", { state: "troubled", limit: 20, runs: 3 }, signal)
        : Promise.resolve(null),
    [isSettled],
    { events: ["definitions"], leastMs: FAULTS_MS, pollMs: 2 * FAULTS_MS },
  );
  // The last minutes show whether the backlog grows, whatever span the charts have.
  const recent = useResource(
    (signal) => (span === "1h" ? Promise.resolve(null) : get("api/stats/history", { span: "1h" }, signal)),
    [span === "1h"],
    { everyMs: 30_000, pollMs: 30_000 },
  );

  const health = useHealth();

  // Draw everything at once, so that no answer pushes down what is already there. Do not wait for slow answers.
  const sources = [names, waiting, workers, constraints, masters, history];
  const wasAnswered = useRef(false);
  wasAnswered.current ||= [...sources, health].every((one) => one.data !== null || one.problem !== null);
  const [isLate, setLate] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setLate(true), PATIENCE_MS);
    return () => clearTimeout(timer);
  }, []);
  if (!stats || !(wasAnswered.current || isLate))
    return html`<h1>${t("nav.overview")}</h1><${ErrorBox} problem=${asked.problem} onRetry=${asked.reload} />${!asked.problem && html`<${Loading} />`}`;
  const failing = (names.data?.names ?? []).filter(
    (name) =>
      !name.is_ignored &&
      name.failed >= FAILING_LEAST &&
      name.success_share !== null &&
      1 - name.success_share >= FAILING_SHARE,
  );
  const orphans = orphansOf(waiting.data?.names ?? [], workers.data?.workers ?? null);
  const hour = span === "1h" ? history.data : recent.data;
  const faults = [
    ...faultsOf(stats, failing, orphans),
    ...lastingFaults({
      workers: (workers.data?.workers ?? []).filter((worker) => !worker.built_in),
      masters: masters.data?.masters ?? [],
      constraints: constraints.data?.constraints ?? NONE,
      definitions: definitions.data?.definitions ?? NONE,
      points: hour ? completePoints(hour) : [],
    }),
  ].sort((a, b) => KINDS.indexOf(a.kind) - KINDS.indexOf(b.kind));
  const total = Object.values(stats.counts).reduce((/** @type {number} */ sum, n) => sum + Number(n), 0);
  return html`<div class="page-head"><h1>${t("nav.overview")}</h1></div>
    <${HealthLine} verdict=${health.data} />
    <${Faults}
      faults=${faults} isAnswered=${wasAnswered.current} isWhole=${sources.every((one) => one.data !== null)}
      problem=${asked.problem} />
    ${total === 0 && html`<${First} session=${session} />`}
    <${Tiles} stats=${stats} />
    ${
      (stats.counts["ready"] ?? 0) > 0
        ? html`<${BacklogWhy} whose=${ALL} />`
        : html`<p class="backlog-why" aria-hidden="true">${" "}</p>`
    }
    <section class="card" aria-labelledby="throughput" aria-busy=${String(!history.data && !history.problem)}>
      <div class="page-head">
        <h2 id="throughput">${t("overview.throughput")}</h2>
        <nav class="spans" aria-label=${t("overview.span")}>
          ${SPANS.map(
            (one) =>
              html`<a
                  key=${one} class="chip-link"
                  href=${href("overview", { span: one === "1h" ? "" : one, compare: compared })}
                  aria-current=${one === span ? "true" : undefined}>
                  ${one}
                </a>`,
          )}
        </nav>
        <${CompareWith}
          word=${compared} span=${span} link=${(/** @type {string} */ word) =>
            href("overview", { span: span === "1h" ? "" : span, compare: word })} />
      </div>
      <${ErrorBox} problem=${history.problem} onRetry=${history.reload} />
      ${
        history.data
          ? html`<${Course} history=${history.data} earlier=${earlier} compared=${compared} />`
          : !history.problem && html`<div class="charts-room"></div>`
      }
    </section>
    <div class="cards after">
      <${Workers} stats=${stats} />
      <${Masters} stats=${stats} masters=${masters.data?.masters ?? []} />
      <${Store} store=${stats.store} />
    </div>
    ${
      (names.data?.names ?? []).some((name) => name.failed > 0) &&
      html`<div><h2>${t("overview.failing")}</h2><${Failing} names=${names.data?.names ?? []} /></div>`
    }`;
}

/**
 * @param {NameStats[]} names
 * @param {Worker[] | null} workers Null: not known, so nobody can tell.
 * @returns {NameStats[]} Names with ready jobs that no live worker takes.
 */
function orphansOf(names, workers) {
  if (workers === null) return [];
  const known = new Set(
    workers
      .filter((worker) => worker.state === "fresh" || worker.state === "draining")
      .flatMap((worker) => worker.names),
  );
  return names.filter((name) => name.ready > 0 && !known.has(name.name)).slice(0, MOST_NAMES);
}

/** @param {Stats | null} a @param {Stats | null} b */
function newer(a, b) {
  if (!a || !b) return a ?? b;
  return Date.parse(a.at) >= Date.parse(b.at) ? a : b;
}

/**
 * @param {{faults: Fault[], isAnswered: boolean, isWhole: boolean, problem: Problem | null}} props `isAnswered`: every
 *   source of faults has answered once. `isWhole`: all of their data are there.
 */
function Faults({ faults: found, isAnswered, isWhole, problem }) {
  const [known, setKnown] = usePref("acknowledged", []);
  const acknowledged = Array.isArray(known) ? known : [];
  const keys = found.map((fault) => fault.key);
  // Forget an acknowledged fault that is over, so that it shows again when it comes back.
  const over = acknowledged.filter((key) => !keys.includes(key)).join();
  useEffect(() => {
    if (!over || !isWhole) return undefined;
    const timer = setTimeout(() => setKnown(acknowledged.filter((key) => keys.includes(key))), FORGET_MS);
    return () => clearTimeout(timer);
  }, [over, isWhole]);
  const snoozed = useSnoozed();
  const [snoozing, setSnoozing] = useState(/** @type {Fault | null} */ (null));
  const shown = found.filter((fault) => !acknowledged.includes(fault.key));
  const faults = shown.filter((fault) => !snoozed.has(fault.key));
  const hidden = found.length - shown.length;
  const asleep = shown.length - faults.length;
  // Faults that are over leave their space behind, and one more than the first has its space: nothing below them jumps.
  const rows = useRef(LEAST_FAULT_ROWS);
  rows.current = Math.max(rows.current, faults.length);
  return html`<section
      class=${`faults ${rows.current > MOST_TALL_FAULTS ? "many" : ""}`}
      style=${{ "--rows": String(rows.current) }} aria-label=${t("overview.wrong")} aria-live="polite"
      aria-busy=${String(!isAnswered)}>
      <${ErrorBox} problem=${problem} />
      ${
        faults.length === 0
          ? isAnswered
            ? html`<p class="all-well"><span aria-hidden="true">✓</span> ${t("overview.well")}</p>`
            : html`<p class="all-well">${t("loading")}</p>`
          : html`<ul>
              ${faults.map(
                (fault) => html`<li key=${fault.key} class=${`fault ${fault.kind}`}>
                    <${Badge} kind=${fault.kind}>${t(`fault.${fault.kind}`)}<//>
                    <span class="fault-text">${fault.text}</span>
                    ${fault.code && html`<${RunbookLink} code=${fault.code} />`}
                    ${
                      fault.link &&
                      html`<a href=${fault.link}><span class="fault-act">${fault.act}</span><span aria-hidden="true"> →</span></a>`
                    }
                    <${Button}
                      class="small" title=${t("fault.acknowledge")}
                      onClick=${() => setKnown([...acknowledged, fault.key])}>
                      <span class="fault-act">${t("fault.acknowledge")}</span><${Icon} name="check" />
                    <//>
                    <${Button}
                      opensDialog class="small" title=${t("fault.snooze")} onClick=${() => setSnoozing(fault)}>
                      <span class="fault-act">${t("fault.snooze")}</span><${Icon} name="times" />
                    <//>
                  </li>`,
              )}
            </ul>`
      }${
        hidden > 0 &&
        html`<p class="muted">
            ${t("fault.acknowledged", { count: hidden })} <button
              type="button" class="link" onClick=${() => setKnown([])}>
              ${t("fault.show")}
            </button>
          </p>`
      }
      ${
        asleep > 0 &&
        html`<p class="muted">
            ${t("fault.snoozed", { count: asleep, until: snoozed.next() })} <button
              type="button" class="link" onClick=${snoozed.wake}>
              ${t("fault.show")}
            </button>
          </p>`
      }
      ${
        snoozing &&
        html`<${SnoozeDialog} fault=${snoozing} onSnooze=${snoozed.add} onClose=${() => setSnoozing(null)} />`
      }
    </section>`;
}

/** @param {Record<string, number>} rates @returns {boolean} Whether so many jobs fail that it is worth a color. */
const isFailing = ({ failed = 0, succeeded = 0, discarded = 0 }) =>
  failed > 0 && failed >= FAILING_SHARE * (failed + succeeded + discarded);

/** @param {{stats: Stats}} props */
function Tiles({ stats }) {
  const { counts, rates } = stats;
  const wait = stats.oldest_wait_ms;
  const startableMs = startableOf(stats).wait_ms;
  const perS = (/** @type {number} */ rate) => number(rate, { maximumFractionDigits: rate < 10 ? 2 : 0 });
  /** @param {string} state @param {Node} [more] @param {string} [kind] */
  const tile = (state, more, kind = "") =>
    html`<a class=${`tile ${kind}`} href=${href("jobs", { state })}>
        <span class="tile-label"><${State} state=${state} /></span>
        <b><${Num} value=${counts[state] ?? 0} /></b><span class="tile-more">${more ?? " "}</span>
      </a>`;
  return html`<div class="tiles">
      ${tile(
        "ready",
        wait === null
          ? t("tile.nothing_waits")
          : t("tile.oldest", { duration: durationText(steadyMs(wait)) }),
        startableMs >= WAIT_BAD_MS ? "bad" : startableMs >= WAIT_WARN_MS ? "warn" : "",
      )}
      ${tile("running", t("tile.slots", { busy: stats.workers.busy, all: stats.workers.max_jobs }))}
      ${tile("retrying", t("tile.per_s", { rate: perS(rates.retried) }), counts["retrying"] ? "warn" : "")}
      ${tile("scheduled")}
      ${tile("failed", t("tile.per_s", { rate: perS(rates.failed) }), isFailing(rates) ? "bad" : "")}
      ${tile("succeeded", t("tile.per_s", { rate: perS(rates.succeeded) }))}
      ${
        (counts["discarded"] || rates.discarded || 0) > 0 &&
        tile("discarded", t("tile.per_s", { rate: perS(rates.discarded ?? 0) }))
      }
      <div class="tile">
        <span class="tile-label">${t("tile.pushed")}</span><b class="num">${perS(rates.pushed)}</b>
        <span class="tile-more">${t("tile.last_minute")}</span>
      </div>
    </div>`;
}

/** @param {{history: History, earlier: History | null, compared: string}} props */
function Course({ history, earlier, compared }) {
  const marks = useMarks(history.points[0]?.at);
  const { xs, outcomes, bad, waits, backlog } = useMemo(() => {
    const points = completePoints(history);
    const perS = (/** @type {typeof OUTCOMES[number] | "retried"} */ key) =>
      points.map((point) => (point[key] ?? 0) / history.step_s);
    return {
      xs: points.map((point) => Date.parse(point.at) / 1000),
      outcomes: OUTCOMES.map((key) => ({ label: t(`state.${key}`), color: `--${key}`, values: perS(key) })),
      bad: [
        { label: t("state.failed"), color: "--failed", values: perS("failed") },
        { label: t("overview.retried"), color: "--retrying", values: perS("retried") },
      ],
      backlog: [
        { label: t("overview.backlog"), color: "--ready", values: points.map((point) => point.backlog) },
      ],
      waits: [
        {
          label: t("overview.wait_p95"),
          color: "--retrying",
          values: points.map((point) => point.wait?.p95_ms ?? null),
        },
        {
          label: t("overview.run_p95"),
          color: "--running",
          values: points.map((point) => point.run?.p95_ms ?? null),
        },
      ],
    };
  }, [history]);
  const before = useMemo(() => {
    /** @param {(point: StatsPoint, stepS: number) => number | null} valueOf */
    const by = (valueOf) => comparedWith(earlier, compared, xs, valueOf);
    return {
      outcomes: by(endsPerS),
      bad: by((point, stepS) => point.failed / stepS),
      backlog: by((point) => point.backlog),
      waits: by((point) => point.wait?.p95_ms ?? null),
    };
  }, [earlier, compared, xs]);
  return html`<${Chart}
      label=${t("overview.throughput")} xs=${xs} series=${outcomes} before=${before.outcomes} marks=${marks}
      listsMarks isStacked
      onRange=${(/** @type {string} */ from, /** @type {string} */ to) =>
        go("jobs", { finished_after: from, finished_before: to })}
      height=${210} format=${perSText} />
    <h3>${t("overview.failures")}</h3>
    <${Chart}
      label=${t("overview.failures")} xs=${xs} series=${bad} before=${before.bad} marks=${marks} height=${110}
      onRange=${(/** @type {string} */ from, /** @type {string} */ to) =>
        go("jobs", { state: "failed", finished_after: from, finished_before: to })}
      format=${perSText} />
    <div class="charts">
      <div>
        <h3>${t("overview.backlog")}</h3>
        <${Chart}
          label=${t("overview.backlog")} xs=${xs} series=${backlog} before=${before.backlog} marks=${marks}
          height=${140} />
      </div>
      <div>
        <h3>${t("overview.times")}</h3>
        <${Chart}
          label=${t("overview.times")} xs=${xs} series=${waits} before=${before.waits} marks=${marks}
          height=${140} format=${durationText} />
      </div>
    </div>`;
}

/** @param {{stats: Stats}} props */
function Workers({ stats }) {
  const { workers } = stats;
  return html`<section class="card" aria-labelledby="workers">
      <h2 id="workers"><a href=${href("workers")}>${t("nav.workers")}</a></h2>
      <p class="glance">
        <b><${Num} value=${workers.fresh} /></b> ${t("worker.fresh")}
        ${UNUSUAL.filter((state) => workers[state] > 0).map(
          (state) =>
            html` <${Badge} kind=${state === "draining" ? "info" : "warn"}>${number(workers[state])} ${t(`worker.${state}`)}<//>`,
        )}
      </p>
      <p>${t("overview.slots", { busy: workers.busy, all: workers.max_jobs })}</p>
      <${Bar}
        value=${workers.busy} of=${workers.max_jobs} label=${t("overview.slots.label")}
        kind=${workers.max_jobs > 0 && workers.busy >= workers.max_jobs ? "warn" : "info"} />
      ${workers.fresh === 0 && html`<p class="muted">${t("overview.no_worker")}</p>`}
    </section>`;
}

/** @param {{stats: Stats, masters: Master[]}} props */
function Masters({ stats, masters }) {
  return html`<section class="card" aria-labelledby="masters">
      <h2 id="masters"><a href=${href("masters")}>${t("nav.masters")}</a></h2>
      <p class="glance">
        <b><${Num} value=${stats.masters.fresh} /></b> ${t("master.fresh")} ${
          stats.masters.stale > 0 &&
          html`<${Badge} kind="warn">${number(stats.masters.stale)} ${t("master.stale")}<//>`
        }
        ${stats.masters.leader_id === null && html`<${Badge} kind="bad">${t("master.no_leader")}<//>`}
      </p>
      <ul class="plain">
        ${masters.slice(0, 6).map(
          (master) =>
            html`<li key=${master.id}>
                  <${Badge}
                    kind=${master.state === "stale" ? "warn" : master.role === "leader" ? "ok" : "off"}>
                    ${
                      master.state === "stale"
                        ? t("master.stale")
                        : tOr(`master.${master.role}`, visible(master.role))
                    }
                  <//> <${Text} value=${master.node_id} max=${60} /> <span class="muted">
                    ${visible(master.version)} · ${t("master.pid", { pid: String(master.pid) })}
                  </span>
                </li>`,
        )}
      </ul>
    </section>`;
}

/** @param {{store: Stats["store"]}} props */
function Store({ store }) {
  const isLess = LEVELS.indexOf(store.durability_available) < LEVELS.indexOf(store.durability);
  const share = store.max_memory_bytes ? store.used_memory_bytes / store.max_memory_bytes : 0;
  return html`<section class="card" aria-labelledby="store">
      <h2 id="store">${t("overview.store")}</h2>
      <dl class="facts">
        <dt>${t("store.health")}</dt>
        <dd>
          ${
            store.faults.length
              ? html`<${Badge} kind="bad">${t("store.faults", { count: store.faults.length })}<//>`
              : html`<${Badge} kind="ok">${t("store.well")}<//>`
          }
        </dd>
        <dt>${t("store.server")}</dt><dd><${Text} value=${store.server} max=${80} /></dd>
        <dt>${t("store.durability")}</dt>
        <dd>
          ${visible(store.durability)} ${
            isLess &&
            html`<${Badge} kind="bad">${t("store.gives", { given: visible(store.durability_available) })}<//>`
          }
          <span class="hint-line">${tOr(`durability.${store.durability}`, "")}</span>
        </dd>
        <dt>${t("store.memory")}</dt>
        <dd>
          <${Bytes} value=${store.used_memory_bytes} />
          ${
            store.max_memory_bytes
              ? html` / <${Bytes} value=${store.max_memory_bytes} /> <${Bar}
                  value=${store.used_memory_bytes} of=${store.max_memory_bytes} label=${t("store.memory")}
                  kind=${share >= MEMORY_BAD ? "bad" : share >= MEMORY_WARN ? "warn" : "info"} />`
              : ""
          }
        </dd>
        <dt>${t("store.latency")}</dt><dd><${Duration} ms=${store.latency_ms} /></dd>
      </dl>
    </section>`;
}

/** @param {{names: NameStats[]}} props */
function Failing({ names }) {
  const failed = names.filter((name) => name.failed > 0);
  return html`<${Table} caption=${t("overview.failing")} rows=${failed} rowKey=${(/** @type {NameStats} */ name) => name.name} columns=${[
    {
      key: "name",
      label: t("job.name"),
      render: (/** @type {NameStats} */ name) =>
        html`<a href=${href("failures", { name: name.name })}><${Text} value=${name.name} max=${80} /></a>`,
    },
    {
      key: "failed",
      label: t("state.failed"),
      align: "end",
      render: (/** @type {NameStats} */ name) => html`<${Num} value=${name.failed} />`,
    },
    {
      key: "share",
      label: t("overview.failed_share"),
      align: "end",
      render: (/** @type {NameStats} */ name) =>
        name.success_share === null ? "–" : html`<span class="num">${percent(1 - name.success_share)}</span>`,
    },
    {
      key: "succeeded",
      label: t("state.succeeded"),
      align: "end",
      priority: 2,
      render: (/** @type {NameStats} */ name) => html`<${Num} value=${name.succeeded} />`,
    },
    {
      key: "retried",
      label: t("overview.retried"),
      align: "end",
      priority: 2,
      render: (/** @type {NameStats} */ name) => html`<${Num} value=${name.retried} />`,
    },
    {
      key: "ready",
      label: t("state.ready"),
      align: "end",
      priority: 2,
      render: (/** @type {NameStats} */ name) => html`<${Num} value=${name.ready} />`,
    },
  ]} />`;
}

/** @param {{session: import("../../core/api.js").Session}} props */
function First({ session }) {
  const call = curl(session, "POST", "api/jobs", {
    body: { name: "hello", argument: { to: "world" } },
  });
  return html`<div class="card">
      <${Empty} title=${t("jobs.empty.first")} curl=${call}>
        ${may(session, "push") && html`<p><a href=${href("enqueue")}>${t("jobs.empty.form")}</a></p>`}
      <//>
    </div>`;
}
