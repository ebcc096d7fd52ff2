/** The drawing of a chart: its axes, its lines or areas, and its reactions to the pointer. */
import { language } from "../core/i18n.js";
import { useEffect, useMemo, useRef, useState } from "../core/lib.js";
import { usePref } from "../core/prefs.js";
import uPlot from "../vendor/uplot.js";
import { drawMarks } from "./chart_marks.js";
import { durationText, instantText } from "./formats.js";

/** @typedef {import("../vendor/uplot.js").default} UPlot */
/** @typedef {{label: string, color: string, values: (number | null)[]}} Series `color`: the name of a CSS variable such as `--succeeded`. */
/**
 * @typedef {{xs: number[], series: Series[], before: Omit<Series, "color"> | null, isStacked: boolean, isLog: boolean, height: number,
 *   times: string, format: (value: number) => string, marks: import("./chart_marks.js").ChartMark[],
 *   zoom: import("./chart_keys.js").Zoom | null, onRange: ((from: string, to: string) => void) | undefined,
 *   onPoint: (at: number | null) => void}} Drawing
 */

const MIN_DRAG_PX = 6;

/**
 * Draw a chart, and draw it again when any part of `drawing` changes.
 * @param {Drawing} drawing
 * @returns {{box: {current: HTMLElement | null}, plot: {current: UPlot | null}}} `box`: for the element of the drawing.
 */
export function usePlot(drawing) {
  const { xs, series, before, isStacked, isLog, height, times, marks, zoom } = drawing;
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const plot = useRef(/** @type {UPlot | null} */ (null));
  const [theme] = usePref("theme", "auto");
  const isDark = useDark();
  const data = useMemo(() => dataOf(xs, series, isStacked, before), [xs, series, isStacked, before]);
  const newest = useRef(drawing);
  newest.current = drawing;
  const shape = [...series.map((one) => `${one.label}|${one.color}`), before?.label].join();
  useEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const made = new uPlot(optionsOf(element, drawing, newest), data, element);
    plot.current = made;
    if (zoom) made.setScale("x", zoom);
    const resize = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height }));
    resize.observe(element);
    return () => {
      resize.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [shape, theme, isDark, isStacked, height, isLog, times, language()]);
  useEffect(() => {
    plot.current?.setData(data, zoom === null);
    if (zoom) plot.current?.setScale("x", zoom);
  }, [data]);
  useEffect(() => plot.current?.redraw(false), [marks]);
  useEffect(() => {
    const [first, last] = [xs[0], xs.at(-1)];
    if (first !== undefined && last !== undefined)
      plot.current?.setScale("x", zoom ?? { min: first, max: last });
  }, [zoom]);
  return { box, plot };
}

/** Whether the browser asks for dark colours. */
function useDark() {
  const [isDark, setDark] = useState(() => matchMedia("(prefers-color-scheme: dark)").matches);
  useEffect(() => {
    const query = matchMedia("(prefers-color-scheme: dark)");
    const change = () => setDark(query.matches);
    query.addEventListener("change", change);
    return () => query.removeEventListener("change", change);
  }, []);
  return isDark;
}

/**
 * @param {number[]} xs
 * @param {Series[]} series
 * @param {boolean} isStacked
 * @param {{values: (number | null)[]} | null} before
 * @returns {import("../vendor/uplot.js").default.AlignedData}
 */
function dataOf(xs, series, isStacked, before) {
  const earlier = before ? [before.values] : [];
  if (!isStacked) return [xs, ...series.map((one) => one.values), ...earlier];
  // Stack the series from the bottom. Draw the highest sum first, so that the lower sums cover it.
  const sums = xs.map(() => 0);
  const isKnown = xs.map((_, i) => series.some((one) => (one.values[i] ?? null) !== null));
  const stacked = series.map((one) =>
    one.values.map((value, i) => (isKnown[i] ? (sums[i] = (sums[i] ?? 0) + (value ?? 0)) : null)),
  );
  return [xs, ...stacked.reverse(), ...earlier];
}

/**
 * @param {HTMLElement} element
 * @param {Drawing} drawing
 * @param {{current: Drawing}} newest
 * @returns {import("../vendor/uplot.js").default.Options}
 */
function optionsOf(element, drawing, newest) {
  const styles = getComputedStyle(element);
  const css = (/** @type {string} */ name) => styles.getPropertyValue(name).trim();
  const { height, isLog, times, onRange, onPoint } = drawing;
  const logarithmic = /** @type {const} */ ({ distr: 3, clamp: 0.001 });
  return {
    width: element.clientWidth || 300,
    height,
    legend: { show: false },
    cursor: { y: false, drag: { x: Boolean(onRange), y: false, setScale: false } },
    padding: [8, 18, 0, 0],
    scales: {
      x: { time: true },
      y: isLog ? logarithmic : { range: (_, low, high) => [Math.min(0, low ?? 0), (high || 1) * 1.08] },
    },
    tzDate: (ts) => (times === "utc" ? uPlot.tzDate(new Date(ts * 1e3), "Etc/UTC") : new Date(ts * 1e3)),
    axes: axesOf(drawing, css),
    series: linesOf(drawing, css),
    hooks: {
      drawAxes: [(u) => drawMarks(u, newest.current.marks)],
      setCursor: [(u) => onPoint(u.cursor.idx ?? null)],
      setSelect: [(u) => openRange(u, newest.current.onRange)],
    },
  };
}

/**
 * @param {Drawing} drawing
 * @param {(name: string) => string} css
 * @returns {import("../vendor/uplot.js").default.Axis[]}
 */
function axesOf({ times, format }, css) {
  const axis = {
    stroke: css("--muted"),
    grid: { stroke: css("--grid"), width: 1 },
    ticks: { show: false },
    font: "12px system-ui, sans-serif",
  };
  return [
    { ...axis, space: 60, size: 42, values: clockIn((ms) => instantText(ms, times)) },
    {
      ...axis,
      size: widthOfLabels,
      ...(format === durationText && { incrs: DURATION_STEPS_MS }),
      values: (_, ticks) => told(ticks.map((tick) => (tick === null ? "" : format(tick)))),
    },
  ];
}

/**
 * @param {Drawing} drawing
 * @param {(name: string) => string} css
 * @returns {import("../vendor/uplot.js").default.Series[]}
 */
function linesOf({ series, before, isStacked }, css) {
  const lines = (isStacked ? [...series].reverse() : series).map((one) => ({
    label: one.label,
    stroke: css(one.color),
    width: isStacked ? 1 : 2,
    ...(isStacked && { fill: css(one.color) }),
    points: isStacked ? { show: false } : { show: true, size: 5, filter: lonePoints },
  }));
  if (!before) return [{}, ...lines];
  const dashed = { width: 1.5, dash: [6, 4], points: { show: false } };
  return [{}, ...lines, { label: before.label, stroke: css("--text"), ...dashed }];
}

/**
 * Open the range that was marked by dragging.
 * @param {UPlot} plot
 * @param {((from: string, to: string) => void) | undefined} onRange
 */
function openRange(plot, onRange) {
  const { left, width } = plot.select;
  if (width < MIN_DRAG_PX) return;
  const iso = (/** @type {number} */ px) => new Date(plot.posToVal(px, "x") * 1000).toISOString();
  const [from, to] = [iso(left), iso(left + width)];
  plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  onRange?.(from, to);
}

/**
 * Label the ticks of a time axis with hours and minutes. The first tick of a day has the day below. If ticks are a day
 * apart, label them with days only.
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
 * Return the single points between two gaps. No line would show such a point.
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
 * @returns {string[]} The labels to show. If the labels of small values round to the same text, only the first of them
 *   is shown.
 */
const told = (labels) => labels.map((label, at) => (label === labels[at - 1] ? "" : label));
