/** Charts over time. */
import { number, t } from "../core/i18n.js";
import { html, useMemo, useRef, useState } from "../core/lib.js";
import { usePref } from "../core/prefs.js";
import { href } from "../core/router.js";
import { byKey } from "./chart_keys.js";
import { MarkList, marksIn } from "./chart_marks.js";
import { usePlot } from "./chart_plot.js";
import { instantText, minuteText } from "./formats.js";

/** @typedef {import("./chart_plot.js").Series} Series */

/** @type {import("./chart_marks.js").ChartMark[]} */
const NO_MARKS = [];

/**
 * Lines or stacked areas over time.
 * @param {{label: string, xs: number[], series: Series[], format?: (value: number) => string, isStacked?: boolean,
 *   height?: number, marks?: import("./chart_marks.js").ChartMark[], listsMarks?: boolean,
 *   before?: Omit<Series, "color"> | null, onRange?: (from: string, to: string) => void}} props
 *   `onRange`: called with the range that was marked by dragging, from and to in ISO 8601. `marks`: changes and events,
 *   drawn as lines and bands. `listsMarks`: the marks are also listed below. `before`: an earlier period to compare
 *   with. `xs`: Unix seconds. Keys: the arrows move through time, Shift with an arrow marks a range, Enter opens the
 *   range, + and - zoom.
 */
export function Chart({
  label,
  xs,
  series: all,
  format = (value) => number(value, { maximumFractionDigits: 2 }),
  isStacked = false,
  height = 200,
  marks = NO_MARKS,
  listsMarks = false,
  before = null,
  onRange,
}) {
  const [times] = usePref("times", "relative");
  const [isLog, setLog] = useState(false);
  const [hidden, setHidden] = useState(/** @type {Set<string>} */ (new Set()));
  const [zoom, setZoom] = useState(/** @type {import("./chart_keys.js").Zoom | null} */ (null));
  const [at, setAt] = useState(/** @type {number | null} */ (null));
  const anchor = useRef(/** @type {number | null} */ (null));
  const series = useMemo(() => all.filter((one) => !hidden.has(one.label)), [all, hidden]);
  const shown = { xs, series, before, isStacked, isLog, height, times, format, marks, zoom };
  const { box, plot } = usePlot({ ...shown, onRange, onPoint: setAt });
  const index = at !== null && at < xs.length ? at : xs.length - 1;
  const press = (/** @type {KeyboardEvent} */ event) => {
    const done = byKey(event, { plot: plot.current, xs, at: index, anchor, zoom, setZoom, onRange });
    if (!done) return;
    event.preventDefault();
    event.stopPropagation();
  };
  const valueOf = (/** @type {{values: (number | null)[]}} */ one) => {
    const v = one.values[index];
    return v === null || v === undefined ? "–" : format(v);
  };
  // Include marks after the last whole minute if the chart shows its end.
  const until = zoom && zoom.max < (xs.at(-1) ?? 0) ? zoom.max : Infinity;
  const visibleMarks = marksIn(marks, zoom?.min ?? xs[0], until);
  const here = marksIn(marks, xs[index], xs[index + 1] ?? (xs[index] ?? 0) + 60);
  const figures = series.map((one) => `${one.label}: ${valueOf(one)}`).join(", ");
  const told = here.map((mark) => mark.text).join(" ");
  const instant = instantText((xs[index] ?? 0) * 1000, times);
  return html`<figure class="chart">
      <figcaption class="legend">
        <span class="legend-at">${xs[index] === undefined ? "" : instant}</span>
        <${LegendItems} all=${all} hidden=${hidden} setHidden=${setHidden} before=${before} valueOf=${valueOf} />
        ${
          !isStacked &&
          html`<button type="button" class="link" aria-pressed=${String(isLog)} onClick=${() => setLog(!isLog)}>${t("chart.log")}</button>`
        }
        ${
          zoom &&
          html`<button type="button" class="link" onClick=${() => setZoom(null)}>${t("chart.whole")}</button>`
        }
        ${at !== null && told && html`<span class="legend-mark">${told}</span>`}
        ${onRange && html`<span class="muted small wide-only chart-drag">${t("chart.drag")}</span>`}
      </figcaption>
      <div
        class="plot" ref=${box} tabindex="0" role="img" title=${t("chart.keys")} onKeyDown=${press}
        aria-label=${`${label}. ${instant} ${figures}${told && `. ${told}`}`}></div>
      ${
        listsMarks &&
        html`<${MarkList} marks=${visibleMarks} timeOf=${minuteText} more=${href("incidents")} />`
      }
    </figure>`;
}

/**
 * The names of the series with their values. A press on a name hides its series. The last visible series cannot be
 * hidden.
 * @param {{all: Series[], hidden: Set<string>, setHidden: (hidden: Set<string>) => void, before: Omit<Series, "color"> | null,
 *   valueOf: (one: {values: (number | null)[]}) => string}} props
 */
function LegendItems({ all, hidden, setHidden, before, valueOf }) {
  const toggle = (/** @type {string} */ name) => {
    const next = new Set(hidden);
    if (!next.delete(name)) next.add(name);
    if (next.size < all.length) setHidden(next);
  };
  return html`${all.map(
    (one) =>
      html`<button
          type="button" key=${one.label} class="legend-item" aria-pressed=${String(!hidden.has(one.label))}
          onClick=${() => toggle(one.label)}>
          <i style=${{ background: `var(${one.color})` }} aria-hidden="true"></i>
          ${one.label} <b class="num">${valueOf(one)}</b>
        </button>`,
  )}
  ${
    before &&
    html`<span class="legend-item"><i class="dashed" aria-hidden="true"></i>${before.label} <b class="num">${valueOf(before)}</b></span>`
  }`;
}
