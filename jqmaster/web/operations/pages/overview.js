/**
 * The Overview: problems first, the worst at the top; then the numbers of jobs, their rates, and workers, masters and
 * the store.
 */
import { html, useEffect, useRef, useState } from "../../core/lib.js";
import { get, may } from "../../core/api.js";
import { curl } from "../../core/curl.js";
import { t } from "../../core/i18n.js";
import { pushedOr, useLatest, useResource } from "../../core/live.js";
import { href } from "../../core/router.js";
import { completePoints } from "../../ui/points.js";
import { CompareWith, comparedPeriod, useEarlier } from "../../ui/comparison.js";
import { Empty, ErrorBox, Loading } from "../../ui/controls.js";
import { BacklogWhy } from "../../jobs/backlog_why.js";
import { withIgnored } from "../../jobs/failure_groups.js";
import { servedBy } from "../../workers/served.js";
import { HealthLine, useHealth } from "../health_line.js";
import { lastingFaults } from "../lasting_faults.js";
import { Num, Text, tellTime } from "../../ui/formats.js";
import { Table } from "../../ui/tables.js";
import { FAILING_SHARE, Tiles } from "../tiles.js";
import { faultsOf, percent } from "../faults.js";
import { Faults } from "../fault_list.js";
import { Course } from "../course.js";
import { Masters, Store, Workers } from "../cards.js";

/** @typedef {import("../../../answers").Schemas["Stats"]} Stats */
/** @typedef {import("../../../answers").Schemas["NameStats"]} NameStats */
/** @typedef {import("../../../answers").Schemas["WorkerView"]} Worker */

const SPANS = ["1h", "6h", "24h", "7d"];
const FAILING_LEAST = 3;

// How often the sources of faults are polled. A fault is then shown within ten seconds; a full constraint needs three
// answers.
const FAULTS_MS = 4_000;
const FULL_MS = 2_500;
const PATIENCE_MS = 1_500;
/** @type {never[]} An empty list, always the same object: a new list would count as a new answer. */
const NONE = [];
/** The whole queue. */
const ALL = {};
const KINDS = ["bad", "warn", "info"];

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
  // Load the definitions later, so that they do not delay the first display.
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
  // Load the last hour, whatever span the charts have: it shows whether the backlog grows.
  const recent = useResource(
    (signal) => (span === "1h" ? Promise.resolve(null) : get("api/stats/history", { span: "1h" }, signal)),
    [span === "1h"],
    { everyMs: 30_000, pollMs: 30_000 },
  );

  const health = useHealth();

  // Draw the page when all sources have answered, so that no later answer moves what is already there. But do not wait
  // long for slow ones.
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
    <${HealthLine} verdict=${health.data} faults=${faults} />
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
  const known = servedBy(workers);
  return names.filter((name) => name.ready > 0 && !known.has(name.name));
}

/** @param {Stats | null} a @param {Stats | null} b */
function newer(a, b) {
  if (!a || !b) return a ?? b;
  return Date.parse(a.at) >= Date.parse(b.at) ? a : b;
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
