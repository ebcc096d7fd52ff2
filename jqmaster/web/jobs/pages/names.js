/** The page of job names: the list with counts, success rates, waits and run times, or one name in detail, over time. */
import { html, useMemo, useState } from "../../core/lib.js";
import { del, get, may } from "../../core/api.js";
import { number, t, tOr } from "../../core/i18n.js";
import { useResource } from "../../core/resource.js";
import { BacklogWhy } from "../backlog_why.js";
import { StillFailedOf } from "../still_failed.js";
import { useServed } from "../../workers/served.js";
import { useMarks } from "../../operations/marks.js";
import { PauseButton, PauseName, pauseColumn } from "../../constraints/pause_dialog.js";
import { Pauses, usePausedNames } from "../../constraints/pauses.js";
import { go, href } from "../../core/router.js";
import { OUTCOMES } from "../../core/states.js";
import { visible } from "../../core/text.js";
import { Chart } from "../../ui/charts.js";
import { completePoints, ratesOf } from "../../ui/points.js";
import { CompareWith, comparedPeriod, comparedWith, endsPerS, useEarlier } from "../../ui/comparison.js";
import { Bar, Button, Empty, ErrorBox, Loading, Pager } from "../../ui/controls.js";
import { Sure } from "../../ui/dialogs.js";
import { Badge, Duration, Num, Text, Time, durationText, perSText } from "../../ui/formats.js";
import { FilterChoice, FilterInput } from "../../ui/filters.js";
import { Table, useHold, useSteadyRows } from "../../ui/tables.js";
import { useTitle } from "../../ui/titles.js";
import { Value } from "../../ui/values.js";

/** @typedef {import("../../../answers").Schemas["NameStats"]} NameStats */

const SPANS = ["1h", "6h", "24h", "7d", "30d"];
const SORTS = ["name", "pushed", "failed", "ready"];
const PAGE = 50;

/** @param {{query: Record<string, string>, go: typeof import("../../core/router.js").go, session: import("../../core/api.js").Session}} props */
export function Page({ query, go, session }) {
  return query["name"]
    ? html`<${One} name=${query["name"]} query=${query} session=${session} />`
    : html`<${List} query=${query} go=${go} session=${session} />`;
}

/** @param {Record<string, string>} query */
const spanOf = (query) => SPANS.find((one) => one === query["span"]) ?? "1h";

/** @param {{query: Record<string, string>}} props */
function Spans({ query }) {
  const span = spanOf(query);
  return html`<nav class="spans" aria-label=${t("overview.span")}>
      ${SPANS.map(
        (one) =>
          html`<a
              key=${one} class="chip-link"
              href=${href("names", { ...query, span: one === "1h" ? "" : one, cursor: "" })}
              aria-current=${one === span ? "true" : undefined}>
              ${one}
            </a>`,
      )}
    </nav>`;
}

/** @param {{query: Record<string, string>, go: typeof import("../../core/router.js").go, session: import("../../core/api.js").Session}} props */
function List({ query, go, session }) {
  const span = spanOf(query);
  const sort = SORTS.includes(query["sort"] ?? "") ? query["sort"] : "failed";
  const hold = useHold();
  const of = JSON.stringify([query["q"], span, sort, query["cursor"]]);
  const found = useResource(
    async (signal) => {
      const wanted = { q: query["q"], span, sort, cursor: query["cursor"], limit: PAGE };
      return { ...(await get("api/names", wanted, signal)), of };
    },
    [of],
    { events: ["jobs", "workers"], leastMs: 5000, everyMs: 15_000 },
  );
  const served = useServed();
  const paused = usePausedNames();
  const { rows } = useSteadyRows(found.data?.names ?? [], nameOf, hold.isHeld, found.data?.of ?? "");
  const change = (/** @type {Record<string, string>} */ changes, replace = false) =>
    go("names", { ...query, cursor: "", ...changes }, { replace });
  return html`<div class="page-head"><h1>${t("nav.names")}</h1><${Spans} query=${query} /></div>
    <form
      class="filters is-open" role="search" aria-label=${t("filters")}
      onSubmit=${(/** @type {Event} */ e) => e.preventDefault()}>
      <${FilterInput}
        label=${t("names.contains")} value=${query["q"] ?? ""}
        onChange=${(/** @type {string} */ q) => change({ q }, true)} />
      <${FilterChoice}
        label=${t("filter.order")} value=${sort} options=${SORTS.map((one) => [one, t(`names.sort.${one}`)])}
        onChange=${(/** @type {string} */ one) => change({ sort: one })} />
    </form>
    <${ErrorBox} problem=${found.problem} onRetry=${found.reload} />
    ${
      !found.data
        ? html`<${Loading} isLoading=${!found.problem} />`
        : html`<div ...${hold.bind}>
            <${Table}
              caption=${t("nav.names")} rows=${rows} rowKey=${nameOf}
              onOpen=${(/** @type {NameStats} */ name) =>
                go("names", { name: name.name, span: query["span"] })}
              columns=${[
                ...columns(rows, served, paused),
                ...(may(session, "operate")
                  ? [pauseColumn((name) => html`<${PauseName} name=${name.name} />`)]
                  : []),
              ]}
              empty=${html`<div class="card"><${Empty} title=${t(query["q"] ? "names.empty.filtered" : "names.empty")} /></div>`} />
          </div>`
    }
    <${Pager}
      hasNext=${Boolean(found.data?.next_cursor)} hasBefore=${Boolean(query["cursor"])}
      isLoading=${found.isLoading} onNext=${() => go("names", { ...query, cursor: found.data?.next_cursor })}
      onFirst=${() => change({})} />`;
}

/** @param {NameStats} name */
const nameOf = (name) => name.name;

/** @param {{name: NameStats}} props */
function Success({ name }) {
  if (name.success_share === null) return html`<${Num} value=${null} />`;
  const text = number(name.success_share, { style: "percent", maximumFractionDigits: 1 });
  return name.is_failing ? html`<${Badge} kind="bad">${text}<//>` : html`<span class="num">${text}</span>`;
}

/** @param {{count: number, to: string}} props The count, as a link unless it is 0. */
const Linked = ({ count, to }) =>
  count > 0
    ? html`<a href=${to}><${Num} value=${count} /></a>`
    : html`<span class="muted"><${Num} value=${count} /></span>`;

/** @typedef {import("../../ui/tables.js").Column<NameStats>} Column */

/**
 * @param {string} key
 * @param {import("../../core/lib.js").Node} label
 * @param {Column["render"]} render
 * @param {Exclude<Column["priority"], undefined>} [priority]
 * @returns {Column} A column of figures.
 */
const figures = (key, label, render, priority) => ({
  key,
  label,
  align: "end",
  ...(priority && { priority }),
  render,
});

/**
 * @param {NameStats[]} names
 * @param {Set<string> | null} served The job names that live workers serve; null: not known yet.
 * @param {Set<string>} paused The names that are paused.
 * @returns {Column[]}
 */
function columns(names, served, paused) {
  const link = (/** @type {number} */ count, /** @type {string} */ to) =>
    html`<${Linked} count=${count} to=${to} />`;
  const count = (/** @type {number | undefined} */ value) => html`<${Num} value=${value} />`;
  const lasted = (/** @type {number | null | undefined} */ ms) => html`<${Duration} ms=${ms} />`;
  return [
    {
      key: "name",
      label: t("job.name"),
      render: (name) =>
        html`<a href=${href("names", { name: name.name })}><${Text} value=${name.name} max=${100} /></a>${
          name.ready > 0 &&
          served?.has(name.name) === false &&
          html` <${Badge} kind="bad">${t("names.no_worker")}<//>`
        }${paused.has(name.name) && html` <${Badge} kind="warn">${t("names.paused")}<//>`}`,
    },
    figures("ready", t("state.ready"), ({ name, ready }) =>
      link(ready, href("jobs", { state: "ready", name })),
    ),
    figures("pushed", t("names.pushed"), (name) => count(name.pushed), 2),
    figures("succeeded", t("state.succeeded"), (name) => count(name.succeeded), 2),
    // Show this column only if a name has discarded jobs: few queues discard jobs, and the table has little space.
    ...(names.some((name) => name.discarded)
      ? [figures("discarded", t("state.discarded"), (name) => count(name.discarded), 3)]
      : []),
    figures("failed", t("state.failed"), ({ name, failed }) => link(failed, href("failures", { name }))),
    figures("retried", t("overview.retried"), (name) => count(name.retried), 3),
    figures("share", t("names.success"), (name) => html`<${Success} name=${name} />`),
    figures("wait50", t("names.wait50"), (name) => lasted(name.wait?.p50_ms), 4),
    figures("wait95", t("names.wait95"), (name) => lasted(name.wait?.p95_ms), 2),
    figures("run50", t("names.run50"), (name) => lasted(name.run?.p50_ms), 4),
    figures("run95", t("names.run95"), (name) => lasted(name.run?.p95_ms), 2),
    figures("seen", t("names.seen"), (name) => html`<${Time} at=${name.last_seen_at} />`, 3),
  ];
}

/** @param {{name: string, query: Record<string, string>, session: import("../../core/api.js").Session}} props */
function One({ name, query, session }) {
  useTitle(name);
  const span = spanOf(query);
  const found = useResource(
    (signal) => get(`api/names/${encodeURIComponent(name)}`, { span }, signal),
    [name, span],
    { events: ["jobs", "workers"], leastMs: 5000, everyMs: 15_000 },
  );
  const history = useResource((signal) => get("api/stats/history", { name, span }, signal), [name, span], {
    events: ["stats"],
    leastMs: 10_000,
    everyMs: 30_000,
  });
  const compared = comparedPeriod(query["compare"], span ?? "");
  const earlier = useEarlier(compared, span ?? "", name);
  const compareLink = (/** @type {string} */ word) => href("names", { ...query, compare: word });
  const data = found.data?.name === name ? found.data : null;
  return html`<p class="crumbs"><a href=${href("names")}>${t("nav.names")}</a></p>
    <div class="page-head"><h1><${Text} value=${name} max=${120} /></h1><${Spans} query=${query} /></div>
    <${ErrorBox} problem=${found.problem} onRetry=${found.reload} />
    ${
      !data
        ? html`<${Loading} isLoading=${!found.problem} />`
        : html`<p class="row">
            <a href=${href("jobs", { name })}>${t("nav.jobs")}</a> <a href=${href("failures", { name })}>
              ${t("nav.failures")}
            </a> <a href=${href("enqueue", { name })}>${t("nav.enqueue")}</a> ${
              may(session, "operate") &&
              html`<${PauseButton} target=${{ job_name: name }} what=${t("pause.what.name", { name: visible(name) })} />`
            }
          </p>
          <${Pauses}
            mayOperate=${may(session, "operate")}
            isOf=${(/** @type {import("../../../answers").Schemas["Matcher"]} */ matcher) =>
              "field" in matcher && matcher.field === "name" && matcher.value === name} />
          <div class="tiles">
            ${FIGURES.map(
              (key) =>
                html`<div key=${key} class=${`tile ${key === "failed" && data.failed > 0 ? "bad" : ""}`}>
                    <span class="tile-label">${t(`names.${key}`)}</span><b><${Num} value=${data[key]} /></b>
                    ${key === "failed" && html`<${StillFailedOf} name=${name} failed=${data.failed} />`}
                  </div>`,
            )}
            <div class="tile">
              <span class="tile-label">${t("names.success")}</span><b><${Success} name=${data} /></b>
            </div>
          </div>
          ${data.ready > 0 && html`<${BacklogWhy} whose=${{ name }} />`}
          <section class="card" aria-labelledby="course">
            <div class="page-head">
              <h2 id="course">${t("overview.throughput")}</h2>
              <${CompareWith} word=${compared} span=${span} link=${compareLink} />
            </div>
            <${ErrorBox} problem=${history.problem} onRetry=${history.reload} />
            ${
              history.data &&
              html`<${Course} history=${history.data} name=${name} earlier=${earlier} compared=${compared} />`
            }
          </section>
          <div class="cards after">
            <${Spread} title=${t("names.wait")} spread=${data.wait} histogram=${data.wait_histogram} />
            <${Spread} title=${t("names.run")} spread=${data.run} histogram=${data.run_histogram} />
          </div>
          <${Contracts} name=${data} mayOperate=${may(session, "operate")} onRemoved=${found.reload} />`
    }`;
}

/** @typedef {import("../../../answers").Schemas["StatsHistory"]} History */

/** @param {{history: History, name: string, earlier: History | null, compared: string}} props */
function Course({ history, name, earlier, compared }) {
  const marks = useMarks(history.points[0]?.at, name);
  const { xs, outcomes, times } = useMemo(() => {
    const points = completePoints(history);
    const perS = ratesOf(points, history.step_s);
    return {
      xs: points.map((point) => Date.parse(point.at) / 1000),
      outcomes: OUTCOMES.map((key) => ({
        label: t(`state.${key}`),
        color: `--${key}`,
        values: perS(key),
      })),
      times: [
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
  const before = useMemo(
    () => ({
      ends: comparedWith(earlier, compared, xs, endsPerS),
      times: comparedWith(earlier, compared, xs, (point) => point.wait?.p95_ms ?? null),
    }),
    [earlier, compared, xs],
  );
  return html`<${Chart}
      label=${t("overview.throughput")} xs=${xs} series=${outcomes} before=${before.ends} marks=${marks}
      listsMarks isStacked
      onRange=${(/** @type {string} */ from, /** @type {string} */ to) =>
        go("jobs", { name, finished_after: from, finished_before: to })}
      height=${180} format=${perSText} />
    <h3>${t("overview.times")}</h3>
    <${Chart}
      label=${t("overview.times")} xs=${xs} series=${times} before=${before.times} marks=${marks}
      height=${140} format=${durationText} />`;
}

const SPREAD = /** @type {const} */ (["p50", "p95", "p99", "max"]);
const FIGURES = /** @type {const} */ (["ready", "pushed", "succeeded", "discarded", "failed", "retried"]);
// Maximum number of bars. Nobody could read more bars at a glance.
const MAX_BARS = 12;

/**
 * Join neighbouring buckets until there are few enough bars.
 * @param {{le_ms: number | null, count: number}[]} buckets
 */
function joined(buckets) {
  const size = Math.ceil(buckets.length / MAX_BARS);
  const end = buckets.length % size;
  /** @type {typeof buckets} */
  const bars = [];
  // Let the first bar join fewer buckets, so that the last bar, with the longest times, is complete.
  for (let at = end - (end ? size : 0); at < buckets.length; at += size) {
    const part = buckets.slice(Math.max(0, at), at + size);
    bars.push({
      le_ms: part.at(-1)?.le_ms ?? null,
      count: part.reduce((sum, bucket) => sum + bucket.count, 0),
    });
  }
  return bars;
}

/** @param {{title: string, spread: import("../../../answers").Schemas["Distribution"] | null, histogram: {le_ms: number | null, count: number}[]}} props */
function Spread({ title, spread, histogram }) {
  const first = histogram.findIndex((bucket) => bucket.count > 0);
  const last = histogram.findLastIndex((bucket) => bucket.count > 0);
  const shown = first < 0 ? [] : joined(histogram.slice(first, last + 1));
  const most = Math.max(1, ...shown.map((bucket) => bucket.count));
  return html`<section class="card">
      <h2>${title}</h2>${
        !spread
          ? html`<p class="muted">${t("names.nothing")}</p>`
          : html`<dl class="facts">
              ${SPREAD.map(
                (key) =>
                  html`<dt key=${key}>${t(`names.${key}`)}</dt><dd><${Duration} ms=${spread[`${key}_ms`]} /></dd>`,
              )}
            </dl>
            <table class="histogram">
              <caption class="sr">${title}</caption>
              <thead class="sr">
                <tr>
                  <th scope="col">${t("job.duration")}</th><th scope="col">${t("names.count")}</th><td></td>
                </tr>
              </thead>
              <tbody>
                ${shown.map(
                  (bucket) =>
                    html`<tr key=${bucket.le_ms}>
                        <td class="end num">
                          ${bucket.le_ms === null ? "∞" : html`≤ ${durationText(bucket.le_ms)}`}
                        </td>
                        <td class="end"><${Num} value=${bucket.count} /></td>
                        <td class="wide">
                          <${Bar} value=${bucket.count} of=${most} label=${t("names.count")} />
                        </td>
                      </tr>`,
                )}
              </tbody>
            </table>`
      }
    </section>`;
}

/**
 * The contracts that workers reported for the name, with warnings about them.
 * @param {{name: import("../../../answers").Schemas["NameDetail"], mayOperate: boolean, onRemoved: () => void}} props
 */
function Contracts({ name, mayOperate, onRemoved }) {
  const [isAsking, setIsAsking] = useState(false);
  const { contracts = [], warnings = [] } = name;
  if (!contracts.length && !warnings.length) return null;
  return html`<section class="card after" aria-labelledby="contracts">
      <h2 id="contracts">${t("names.contracts")}</h2>
      ${warnings.map(
        (one) =>
          html`<p key=${one.code} role="note"><${Badge} kind="warn">${t("names.warning")}<//> ${tOr(`names.warning.${one.code}`, visible(one.text))}</p>`,
      )}
      ${contracts.map(
        (one, n) => html`<details key=${n} open=${n === 0}>
            <summary>
              <strong>${t("names.contract", { version: visible(one.version) || "–" })}</strong>
              <span class="muted">
                ${t("names.contract.workers", { n: number(one.live_workers) })} · <${Time}
                  at=${one.told_at} />
              </span>
            </summary>
            ${
              one.argument_schema === null
                ? html`<p class="muted">${t("names.contract.any")}</p>`
                : html`<${Value} value=${one.argument_schema} label=${t("names.contract.schema")} />`
            }
            ${
              Object.keys(one.options).length > 0 &&
              html`<${Value} value=${one.options} label=${t("names.contract.options")} />`
            }
          </details>`,
      )}
      ${
        mayOperate &&
        contracts.length > 0 &&
        html`<p><${Button} kind="danger" onClick=${() => setIsAsking(true)}>${t("names.contracts.remove")}<//></p>`
      }
      ${
        isAsking &&
        html`<${Sure} title=${t("names.contracts.remove")} verb=${t("names.contracts.remove")} onClose=${() => setIsAsking(false)}
      onConfirm=${async () => {
        await del(`api/contracts/${encodeURIComponent(name.name)}`);
        onRemoved();
      }}><p>${t("names.contracts.remove.text", { name: visible(name.name) })}</p><//>`
      }
    </section>`;
}
