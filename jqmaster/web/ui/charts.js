/** Charts over time. */
import { language, number, t } from "../core/i18n.js";
import { html, useEffect, useMemo, useRef, useState } from "../core/lib.js";
import { usePref } from "../core/prefs.js";
import { href } from "../core/router.js";
import uPlot from "../vendor/uplot.js";
import { MarkList, drawMarks, marksIn } from "./chart_marks.js";
import { durationText, instantText, minuteText } from "./formats.js";

/** @typedef {import("../vendor/uplot.js").default} UPlot */

const MIN_DRAG_PX = 6;
// A chart cannot be zoomed in to fewer points than this.
const MIN_POINTS = 5;
/** @type {import("./chart_marks.js").ChartMark[]} */
const NO_MARKS = [];

/**
 * Label the ticks of a time axis: hours and minutes, with the day below where one begins; only days if they are a day
 * apart.
 * @param {(ms: number) => string} textOf
 */
const clockIn =
  (textOf) =>
  /**
   * @param {UPlot} _plot
   * @param {number[]} ticks Unix seconds.
   * @param {number} _axis
   * @param {number} _space
   * @param {number} stepS
   */
  (_plot, ticks, _axis, _space, stepS) =>
    ticks.map((tick, at) => {
      const text = textOf(tick * 1000);
      const day = text.slice(5, 10);
      if (stepS >= 86_400) return day;
      const before = ticks[at - 1];
      const isNewDay =
        before === undefined
          ? ticks.length > 1 && spansDays(ticks, textOf)
          : textOf(before * 1000).slice(5, 10) !== day;
      return isNewDay ? `${text.slice(11, 16)}\n${day}` : text.slice(11, 16);
    });

/** @param {number[]} ticks @param {(ms: number) => string} textOf */
const spansDays = (ticks, textOf) =>
  textOf((ticks[0] ?? 0) * 1000).slice(0, 10) !== textOf((ticks.at(-1) ?? 0) * 1000).slice(0, 10);

/**
 * Return the points between two gaps, which no line would show.
 * @param {UPlot} plot
 * @param {number} at The index of the series.
 * @returns {number[]}
 */
function lonePoints(plot, at) {
  const values = /** @type {(number | null)[]} */ (plot.data[at]);
  return values.flatMap((value, i) =>
    value !== null && (values[i - 1] ?? null) === null && (values[i + 1] ?? null) === null ? [i] : [],
  );
}

// The possible distances of ticks on an axis of durations: round values, such as minutes, but not 100 s.
const DURATION_STEPS_MS = [
  ...[0.1, 1, 10, 100].flatMap((ten) => [ten, 2 * ten, 5 * ten]),
  ...[1, 2, 5, 10, 15, 30].map((seconds) => seconds * 1000),
  ...[1, 2, 5, 10, 15, 30].map((minutes) => minutes * 60_000),
  ...[1, 2, 3, 6, 12, 24, 48, 96, 240, 480].map((hours) => hours * 3_600_000),
];

/**
 * Room for the longest label of an axis, in px: durations such as `1 min 40 s` are long.
 * @param {UPlot} _
 * @param {string[] | null} labels
 */
function widthOfLabels(_, labels) {
  return Math.max(48, 16 + 7 * Math.max(0, ...(labels ?? []).map((label) => label.length)));
}

/**
 * @param {string[]} labels
 * @returns {string[]} The labels to show. Labels of small values may round to the same text; then only the first one is shown.
 */
const told = (labels) => labels.map((label, at) => (label === labels[at - 1] ? "" : label));

/**
 * Lines or stacked areas over time.
 * @param {{label: string, xs: number[], series: {label: string, color: string, values: (number | null)[]}[], format?:
 *   (value: number) => string, isStacked?: boolean, height?: number, marks?: import("./chart_marks.js").ChartMark[],
 *   listsMarks?: boolean, before?: {label: string, values: (number | null)[]} | null, onRange?: (from: string, to:
 *   string) => void}} props
 *   `onRange`: called with the range that was marked by dragging, from and to in ISO 8601. A press on a name in the
 *   legend hides its series. `marks`: what happened, drawn as lines and bands; `listsMarks`: they are also listed.
 *   `before`: an earlier period to compare with. By
 *   key: arrows move through time, with Shift they mark a range, Enter opens it, + and - zoom. `xs`: Unix seconds.
 *   `color`: the name of a CSS variable such as `--succeeded`.
 */
export function Chart({
  label,
  xs,
  series,
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
  const ranged = useRef(onRange);
  ranged.current = onRange;
  const all = series;
  series = useMemo(() => all.filter((one) => !hidden.has(one.label)), [all, hidden]);
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const plot = useRef(/** @type {UPlot | null} */ (null));
  const [theme] = usePref("theme", "auto");
  const [isDark, setDark] = useState(() => matchMedia("(prefers-color-scheme: dark)").matches);
  useEffect(() => {
    const query = matchMedia("(prefers-color-scheme: dark)");
    const change = () => setDark(query.matches);
    query.addEventListener("change", change);
    return () => query.removeEventListener("change", change);
  }, []);
  const data = useMemo(
    /** @returns {import("../vendor/uplot.js").default.AlignedData} */ () => {
      const earlier = before ? [before.values] : [];
      if (!isStacked) return [xs, ...series.map((one) => one.values), ...earlier];
      // Stack the series from the bottom. Draw the highest sum first, so that the lower ones cover it.
      const sums = xs.map(() => 0);
      const isKnown = xs.map((_, i) => series.some((one) => (one.values[i] ?? null) !== null));
      const stacked = series.map((one) =>
        one.values.map((value, i) => (isKnown[i] ? (sums[i] = (sums[i] ?? 0) + (value ?? 0)) : null)),
      );
      return [xs, ...stacked.reverse(), ...earlier];
    },
    [xs, series, isStacked, before],
  );
  const latest = useRef(data);
  latest.current = data;
  const drawn = useRef(marks);
  drawn.current = marks;
  /** The visible period after a zoom, in Unix seconds; null: the whole period. */
  const [zoom, setZoom] = useState(/** @type {{min: number, max: number} | null} */ (null));
  const zoomed = useRef(zoom);
  zoomed.current = zoom;
  const shape = [...series.map((one) => `${one.label}|${one.color}`), before?.label].join();
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const styles = getComputedStyle(element);
    const css = (/** @type {string} */ name) => styles.getPropertyValue(name).trim();
    const ordered = isStacked ? [...series].reverse() : series;
    const axis = {
      stroke: css("--muted"),
      grid: { stroke: css("--grid"), width: 1 },
      ticks: { show: false },
      font: "12px system-ui, sans-serif",
    };
    const made = new uPlot(
      {
        width: element.clientWidth || 300,
        height,
        legend: { show: false },
        cursor: { y: false, drag: { x: Boolean(onRange), y: false, setScale: false } },
        padding: [8, 18, 0, 0],
        scales: {
          x: { time: true },
          y: {
            ...(isLog && { distr: 3, clamp: 0.001 }),
            ...(!isLog && {
              range: (_, /** @type {number} */ low, /** @type {number} */ high) => [
                Math.min(0, low ?? 0),
                (high || 1) * 1.08,
              ],
            }),
          },
        },
        tzDate: (/** @type {number} */ ts) =>
          times === "utc" ? uPlot.tzDate(new Date(ts * 1e3), "Etc/UTC") : new Date(ts * 1e3),
        axes: [
          { ...axis, space: 60, size: 42, values: clockIn((ms) => instantText(ms, times)) },
          {
            ...axis,
            size: widthOfLabels,
            ...(format === durationText && { incrs: DURATION_STEPS_MS }),
            values: (_, /** @type {number[]} */ ticks) =>
              told(ticks.map((tick) => (tick === null ? "" : format(tick)))),
          },
        ],
        series: [
          {},
          ...ordered.map((one) => ({
            label: one.label,
            stroke: css(one.color),
            width: isStacked ? 1 : 2,
            ...(isStacked && { fill: css(one.color) }),
            points: isStacked ? { show: false } : { show: true, size: 5, filter: lonePoints },
          })),
          ...(before
            ? [
                {
                  label: before.label,
                  stroke: css("--text"),
                  width: 1.5,
                  dash: [6, 4],
                  points: { show: false },
                },
              ]
            : []),
        ],
        hooks: {
          drawAxes: [(u) => drawMarks(u, drawn.current)],
          setCursor: [(u) => setAt(u.cursor.idx ?? null)],
          setSelect: [
            (u) => {
              const { left, width: selected } = u.select;
              if (selected < MIN_DRAG_PX) return;
              const iso = (/** @type {number} */ px) => new Date(u.posToVal(px, "x") * 1000).toISOString();
              const [from, to] = [iso(left), iso(left + selected)];
              u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
              ranged.current?.(from, to);
            },
          ],
        },
      },
      latest.current,
      element,
    );
    plot.current = made;
    if (zoomed.current) made.setScale("x", zoomed.current);
    const resize = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height }));
    resize.observe(element);
    return () => {
      resize.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [shape, theme, isDark, isStacked, height, isLog, times, language()]);
  useEffect(() => {
    plot.current?.setData(data, zoomed.current === null);
    if (zoomed.current) plot.current?.setScale("x", zoomed.current);
  }, [data]);
  useEffect(() => plot.current?.redraw(false), [marks]);
  useEffect(() => {
    const [first, last] = [xs[0], xs.at(-1)];
    if (first !== undefined && last !== undefined)
      plot.current?.setScale("x", zoom ?? { min: first, max: last });
  }, [zoom]);
  const [at, setAt] = useState(/** @type {number | null} */ (null));
  const anchor = useRef(/** @type {number | null} */ (null));
  const press = (/** @type {KeyboardEvent} */ event) => {
    const done = byKey(event, { plot: plot.current, xs, at: index, anchor, zoom, setZoom, onRange });
    if (!done) return;
    event.preventDefault();
    event.stopPropagation();
  };
  const index = at !== null && at < xs.length ? at : xs.length - 1;
  const toggle = (/** @type {string} */ name) => {
    const next = new Set(hidden);
    if (!next.delete(name)) next.add(name);
    if (next.size < all.length) setHidden(next);
  };
  const value = (/** @type {{values: (number | null)[]}} */ one) => {
    const v = one.values[index];
    return v === null || v === undefined ? "–" : format(v);
  };
  // Include marks after the last whole minute if the chart shows its end.
  const until = zoom && zoom.max < (xs.at(-1) ?? 0) ? zoom.max : Infinity;
  const visibleMarks = marksIn(marks, zoom?.min ?? xs[0], until);
  const here = marksIn(marks, xs[index], xs[index + 1] ?? (xs[index] ?? 0) + 60);
  const figures = series.map((one) => `${one.label}: ${value(one)}`).join(", ");
  const events = here.length > 0 ? `. ${here.map((mark) => mark.text).join(" ")}` : "";
  const inWords = `${label}. ${instantText((xs[index] ?? 0) * 1000, times)} ${figures}${events}`;
  return html`<figure class="chart">
      <figcaption class="legend">
        <span class="legend-at">
          ${xs[index] === undefined ? "" : instantText((xs[index] ?? 0) * 1000, times)}
        </span>
        ${all.map(
          (one) =>
            html`<button
                type="button" key=${one.label} class="legend-item"
                aria-pressed=${String(!hidden.has(one.label))} onClick=${() => toggle(one.label)}>
                <i style=${{ background: `var(${one.color})` }} aria-hidden="true"></i>
                ${one.label} <b class="num">${value(one)}</b>
              </button>`,
        )}
        ${
          before &&
          html`<span class="legend-item"><i class="dashed" aria-hidden="true"></i>${before.label} <b class="num">${value(before)}</b></span>`
        }
        ${
          !isStacked &&
          html`<button type="button" class="link" aria-pressed=${String(isLog)} onClick=${() => setLog(!isLog)}>${t("chart.log")}</button>`
        }
        ${
          zoom &&
          html`<button type="button" class="link" onClick=${() => setZoom(null)}>${t("chart.whole")}</button>`
        }
        ${
          at !== null &&
          here.length > 0 &&
          html`<span class="legend-mark">${here.map((mark) => mark.text).join(" ")}</span>`
        }
        ${onRange && html`<span class="muted small wide-only chart-drag">${t("chart.drag")}</span>`}
      </figcaption>
      <div
        class="plot" ref=${box} tabindex="0" role="img" title=${t("chart.keys")} onKeyDown=${press}
        aria-label=${inWords}></div>
      ${
        listsMarks &&
        html`<${MarkList} marks=${visibleMarks} timeOf=${minuteText} more=${href("incidents")} />`
      }
    </figure>`;
}

/**
 * Act on a key: move through time, mark a range, open it, zoom.
 * @param {KeyboardEvent} event
 * @param {{plot: UPlot | null, xs: number[], at: number, anchor: {current: number | null}, zoom: {min: number, max:
 *   number} | null, setZoom: (zoom: {min: number, max: number} | null) => void, onRange: ((from: string, to: string)
 *   => void) | undefined}} chart `at`: the index of the point that is shown.
 * @returns {boolean} Whether the key means something.
 */
function byKey({ key, shiftKey }, { plot, xs, at, anchor, zoom, setZoom, onRange }) {
  const last = xs.length - 1;
  if (!plot || last < 1) return false;
  /** @type {Record<string, number>} */
  const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -last, End: last };
  const x = (/** @type {number} */ n) => xs[Math.max(0, Math.min(last, n))] ?? 0;
  const step = steps[key];
  if (step !== undefined) {
    const next = Math.max(0, Math.min(last, at + step));
    if (shiftKey && anchor.current === null) anchor.current = at;
    if (!shiftKey) anchor.current = null;
    const left = plot.valToPos(x(next), "x");
    plot.setCursor({ left, top: 0 });
    const from = anchor.current === null ? left : plot.valToPos(x(anchor.current), "x");
    plot.setSelect(
      { left: Math.min(from, left), top: 0, width: Math.abs(left - from), height: plot.over.clientHeight },
      false,
    );
    return true;
  }
  switch (key) {
    case "+":
    case "=":
    case "-": {
      const [min, max] = [zoom?.min ?? x(0), zoom?.max ?? x(last)];
      const half = ((max - min) * (key === "-" ? 2 : 0.5)) / 2;
      const least = ((x(last) - x(0)) / last) * MIN_POINTS;
      if (2 * half < least) return true;
      const from = Math.max(x(0), Math.min(x(at) - half, x(last) - 2 * half));
      const to = Math.min(x(last), from + 2 * half);
      setZoom(from <= x(0) && to >= x(last) ? null : { min: from, max: to });
      return true;
    }
    case "Escape":
      if (zoom === null && anchor.current === null) return false;
      anchor.current = null;
      plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
      setZoom(null);
      return true;
    case "Enter": {
      if (!onRange) return false;
      const ends = [at, anchor.current ?? at].sort((a, b) => a - b);
      const iso = (/** @type {number} */ n) => new Date(x(n) * 1000).toISOString();
      const pointS = Math.max(1, x(1) - x(0));
      onRange(iso(ends[0] ?? at), new Date((x(ends[1] ?? at) + pointS) * 1000).toISOString());
      return true;
    }
    default:
      return false;
  }
}
