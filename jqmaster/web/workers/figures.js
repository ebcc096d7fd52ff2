/** Figures of workers in the last minutes: rate, run times and failures. Workers that differ from the others are marked. */
import { html } from "../core/lib.js";
import { number, t, tOr } from "../core/i18n.js";
import { visible } from "../core/text.js";
import { Badge, Duration, Num } from "../ui/formats.js";

/** @typedef {import("../../answers").Schemas["WorkerFigures"]} Figures */
/** @typedef {{figures?: Figures | null}} Row Null: nothing is known yet. */
/** @template Of @typedef {import("../ui/tables.js").Column<Of>} Column */

/** @param {Row} props The title of a mark says why a worker, or a group, has it. */
export function Marks({ figures }) {
  return html`${(figures?.marks ?? []).map(
    (/** @type {string} */ mark) =>
      html` <span title=${tOr(`workers.mark.${mark}.rule`, "")}>
          <${Badge} kind=${mark === "slow" ? "warn" : "bad"}>${tOr(`workers.mark.${mark}`, visible(mark))}<//>
        </span>`,
  )}`;
}

/** @param {Row} props */
export function Failed({ figures }) {
  if (!figures || figures.failed_share === null) return html`<${Num} value=${null} />`;
  const share = number(figures.failed_share, { style: "percent", maximumFractionDigits: 1 });
  return html`<span class="num" title=${t("workers.failed.title")}>${number(figures.failed)}${figures.failed > 0 && ` (${share})`}</span>`;
}

/** @returns {Column<Row>[]} */
export const figureColumns = () => [
  {
    key: "rate",
    label: t("workers.rate"),
    align: "end",
    sort: "rate",
    width: 6.2,
    priority: 2,
    render: (row) => html`<${Num} value=${row.figures?.attempts_per_s} digits=${1} />`,
  },
  {
    key: "p50",
    label: t("workers.p50"),
    align: "end",
    sort: "p50",
    width: 5,
    priority: 2,
    render: (row) => html`<${Duration} ms=${row.figures?.run?.p50_ms} />`,
  },
  {
    key: "p99",
    label: t("workers.p99"),
    align: "end",
    sort: "p99",
    width: 5,
    priority: 2,
    render: (row) => html`<${Duration} ms=${row.figures?.run?.p99_ms} />`,
  },
  {
    key: "failed_share",
    label: t("state.failed"),
    align: "end",
    sort: "failed",
    width: 6.8,
    phone: "line",
    render: (row) => html`<${Failed} figures=${row.figures} />`,
  },
  {
    key: "marks",
    label: t("workers.marks"),
    priority: 2,
    render: (row) => html`<${Marks} figures=${row.figures} />`,
  },
];

/** @type {Record<string, (row: Row) => number>} The largest first. */
const NUMBERS = {
  rate: (row) => row.figures?.attempts_per_s ?? -1,
  p50: (row) => row.figures?.run?.p50_ms ?? -1,
  p99: (row) => row.figures?.run?.p99_ms ?? -1,
  failed: (row) => row.figures?.failed_share ?? -1,
};
export const SORTS = Object.keys(NUMBERS);

/**
 * @template {Row} Of
 * @param {Of[]} rows
 * @param {string} sort One of `SORTS`. With any other word, the order of the rows stays.
 */
export function sortedByFigures(rows, sort) {
  const of = NUMBERS[sort];
  return of ? [...rows].sort((a, b) => of(b) - of(a)) : rows;
}

/** @param {Row} props The figures of one worker as facts, with the rules by which it is marked. */
export function FigureFacts({ figures }) {
  if (!figures) return null;
  return html`<section class="card"><h2>${t("workers.figures")}<${Marks} figures=${figures} /></h2><dl class="facts">
    <dt>${t("workers.rate")}</dt><dd><${Num} value=${figures.attempts_per_s} digits=${2} /></dd>
    <dt>${t("workers.p50")}</dt><dd><${Duration} ms=${figures.run?.p50_ms} /></dd>
    <dt>${t("workers.p99")}</dt><dd><${Duration} ms=${figures.run?.p99_ms} /></dd>
    <dt>${t("workers.longest")}</dt><dd><${Duration} ms=${figures.run?.max_ms} /></dd>
    <dt>${t("state.succeeded")}</dt><dd><${Num} value=${figures.succeeded} /></dd>
    <dt>${t("workers.failed")}</dt><dd><${Failed} figures=${figures} /></dd></dl>
    <p class="muted after">${t("workers.figures.text")}</p>
    ${figures.marks.map((/** @type {string} */ mark) => html`<p class="muted">${tOr(`workers.mark.${mark}.rule`, "")}</p>`)}</section>`;
}
