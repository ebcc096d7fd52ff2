/**
 * The Overview. Problems come first, the worst at the top. The numbers of jobs, their rates, the workers, the masters
 * and the store follow.
 */
import { html, useEffect, useRef, useState } from "../../core/lib.js";
import { get, may } from "../../core/api.js";
import { curl } from "../../core/curl.js";
import { t } from "../../core/i18n.js";
import { pushedOr, useLatest } from "../../core/live.js";
import { useResource } from "../../core/resource.js";
import { href } from "../../core/router.js";
import { CompareWith, comparedPeriod, useEarlier } from "../../ui/comparison.js";
import { Empty, ErrorBox, Loading } from "../../ui/controls.js";
import { BacklogWhy } from "../../jobs/backlog_why.js";
import { HealthLine } from "../health_line.js";
import { Num, Text, tellTime } from "../../ui/formats.js";
import { Table } from "../../ui/tables.js";
import { Tiles } from "../tiles.js";
import { percent, useHealth } from "../findings.js";
import { Faults } from "../fault_list.js";
import { Course } from "../course.js";
import { Masters, Store, Workers } from "../cards.js";

/** @typedef {import("../../../answers").Schemas["Stats"]} Stats */
/** @typedef {import("../../../answers").Schemas["NameStats"]} NameStats */

const SPANS = ["1h", "6h", "24h", "7d"];
const PATIENCE_MS = 1_500;
/** The whole queue. */
const ALL = {};

/** @param {{query: Record<string, string>, go: typeof import("../../core/router.js").go, session: import("../../core/api.js").Session}} props */
export function Page({ query, session }) {
  const span = SPANS.find((one) => one === query["span"]) ?? "1h";
  const asked = useResource((signal) => pushedOr("stats", () => get("api/stats", {}, signal)), []);
  const pushed = useLatest("stats");
  const stats = newer(pushed, asked.data);
  useEffect(() => {
    if (stats) tellTime(stats.at);
  }, [stats?.at]);
  const compared = comparedPeriod(query["compare"], span);
  const earlier = useEarlier(compared, span);
  const history = useResource((signal) => get("api/stats/history", { span }, signal), [span], {
    events: ["stats"],
    leastMs: span === "1h" ? 10_000 : 60_000,
    everyMs: 30_000,
  });
  const names = useResource(
    (signal) => get("api/names", { span: "1h", sort: "failed", limit: 5 }, signal),
    [],
    { events: ["jobs"], leastMs: 10_000, everyMs: 30_000 },
  );
  const masters = useResource((signal) => get("api/masters", {}, signal), [], {
    events: ["masters"],
    leastMs: 2000,
    everyMs: 15_000,
  });

  const health = useHealth();

  // Draw the page when all sources have answered, so that no later answer moves the content. But do not wait long for
  // slow sources.
  const sources = [names, masters, history, health];
  const wasAnswered = useRef(false);
  wasAnswered.current ||= sources.every((one) => one.data !== null || one.problem !== null);
  const isLate = useIsLate();
  if (!stats || !(wasAnswered.current || isLate))
    return html`<h1>${t("nav.overview")}</h1><${ErrorBox} problem=${asked.problem} onRetry=${asked.reload} />${!asked.problem && html`<${Loading} />`}`;
  const { findings } = health;
  const total = Object.values(stats.counts).reduce((/** @type {number} */ sum, n) => sum + Number(n), 0);
  return html`<div class="page-head"><h1>${t("nav.overview")}</h1></div>
    <${HealthLine} verdict=${health.data} findings=${findings} />
    <${Faults}
      findings=${findings} isAnswered=${health.data !== null} isKnown=${health.isKnown}
      problem=${asked.problem ?? health.problem} />
    ${total === 0 && html`<${First} session=${session} />`}
    <${Tiles} stats=${stats} findings=${findings} />
    ${
      (stats.counts["ready"] ?? 0) > 0
        ? html`<${BacklogWhy} whose=${ALL} />`
        : html`<p class="backlog-why" aria-hidden="true">${" "}</p>`
    }
    <${Throughput} history=${history} span=${span} compared=${compared} earlier=${earlier} />
    <div class="cards after">
      <${Workers} stats=${stats} />
      <${Masters} stats=${stats} masters=${masters.data?.masters ?? []} />
      <${Store} store=${stats.store} findings=${findings} />
    </div>
    ${
      (names.data?.names ?? []).some((name) => name.failed > 0) &&
      html`<div><h2>${t("overview.failing")}</h2><${Failing} names=${names.data?.names ?? []} /></div>`
    }`;
}

/** @param {Stats | null} a @param {Stats | null} b */
function newer(a, b) {
  if (!a || !b) return a ?? b;
  return Date.parse(a.at) >= Date.parse(b.at) ? a : b;
}

/** @returns {boolean} Whether the page has been open for so long that it does not wait any longer. */
function useIsLate() {
  const [isLate, setLate] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setLate(true), PATIENCE_MS);
    return () => clearTimeout(timer);
  }, []);
  return isLate;
}

/**
 * @param {{history: import("../../core/resource.js").Loaded<import("../../../answers").Schemas["StatsHistory"]> & {reload: () => unknown},
 *   span: string, compared: string, earlier: ReturnType<typeof useEarlier>}} props
 */
function Throughput({ history, span, compared, earlier }) {
  return html`<section class="card" aria-labelledby="throughput" aria-busy=${String(!history.data && !history.problem)}>
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
