/** Charts over time. */
import { language, number } from "../i18n.js";
import { html, useEffect, useMemo, useRef, useState } from "../lib.js";
import { usePref } from "../prefs.js";
import uPlot from "../vendor/uplot.js";
import { durationText, utcText } from "./formats.js";

/**
 * The ticks of a time axis in UTC: hours and minutes, or days where they are a day apart.
 * @param {any} _plot
 * @param {number[]} ticks Unix seconds.
 * @param {number} _axis
 * @param {number} _space
 * @param {number} stepS
 */
function clockOf(_plot, ticks, _axis, _space, stepS) {
  return ticks.map((tick) => {
    const iso = new Date(tick * 1000).toISOString();
    return stepS >= 86_400 ? iso.slice(5, 10) : iso.slice(11, 16);
  });
}

/**
 * Points between two gaps, of which no line would tell.
 * @param {any} plot
 * @param {number} at Of the series.
 * @returns {number[]}
 */
function lonePoints(plot, at) {
  const values = /** @type {(number | null)[]} */ (plot.data[at]);
  return values.flatMap((value, i) =>
    value !== null && (values[i - 1] ?? null) === null && (values[i + 1] ?? null) === null ? [i] : [],
  );
}

// Ticks of durations stand at round ones: at minutes, not at 100 s.
const DURATION_STEPS_MS = [
  ...[0.1, 1, 10, 100].flatMap((ten) => [ten, 2 * ten, 5 * ten]),
  ...[1, 2, 5, 10, 15, 30].map((seconds) => seconds * 1000),
  ...[1, 2, 5, 10, 15, 30].map((minutes) => minutes * 60_000),
  ...[1, 2, 3, 6, 12, 24, 48, 96, 240, 480].map((hours) => hours * 3_600_000),
];

/**
 * Room for the longest label of an axis, in px: durations such as `1 min 40 s` are long.
 * @param {any} _
 * @param {string[] | null} labels
 */
function widthOfLabels(_, labels) {
  return Math.max(48, 16 + 7 * Math.max(0, ...(labels ?? []).map((label) => label.length)));
}

/**
 * Lines or stacked areas over time.
 * @param {{label: string, xs: number[], series: {label: string, color: string, values: (number | null)[]}[], format?: (value: number) => string, isStacked?: boolean, height?: number}} props
 *   `xs`: Unix seconds. `color`: the name of a CSS variable such as `--succeeded`.
 */
export function Chart({
  label,
  xs,
  series,
  format = (value) => number(value, { maximumFractionDigits: 2 }),
  isStacked = false,
  height = 200,
}) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const plot = useRef(/** @type {any} */ (null));
  const [theme] = usePref("theme", "auto");
  const [isDark, setDark] = useState(() => matchMedia("(prefers-color-scheme: dark)").matches);
  useEffect(() => {
    const query = matchMedia("(prefers-color-scheme: dark)");
    const change = () => setDark(query.matches);
    query.addEventListener("change", change);
    return () => query.removeEventListener("change", change);
  }, []);
  const data = useMemo(() => {
    if (!isStacked) return [xs, ...series.map((one) => one.values)];
    // Upon each other, the first at the bottom; the uppermost sum is drawn first, so that the lower ones cover it.
    const sums = xs.map(() => 0);
    const stacked = series.map((one) =>
      one.values.map((value, i) => (sums[i] = (sums[i] ?? 0) + (value ?? 0))),
    );
    return [xs, ...stacked.reverse()];
  }, [xs, series, isStacked]);
  const latest = useRef(data);
  latest.current = data;
  const shape = series.map((one) => `${one.label}|${one.color}`).join();
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
        cursor: { y: false, drag: { x: false, y: false } },
        padding: [8, 18, 0, 0],
        scales: {
          x: { time: true },
          y: {
            range: (/** @type {any} */ _, /** @type {number} */ low, /** @type {number} */ high) => [
              Math.min(0, low ?? 0),
              Math.max(high ?? 0, 1e-3) * 1.08,
            ],
          },
        },
        tzDate: (/** @type {number} */ ts) => uPlot.tzDate(new Date(ts * 1e3), "Etc/UTC"),
        axes: [
          { ...axis, space: 60, size: 28, values: clockOf },
          {
            ...axis,
            size: widthOfLabels,
            ...(format === durationText && { incrs: DURATION_STEPS_MS }),
            values: (/** @type {any} */ _, /** @type {number[]} */ ticks) =>
              ticks.map((tick) => format(tick)),
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
        ],
        hooks: { setCursor: [(/** @type {any} */ u) => setAt(u.cursor.idx ?? null)] },
      },
      /** @type {any} */ (latest.current),
      element,
    );
    plot.current = made;
    const resize = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height }));
    resize.observe(element);
    return () => {
      resize.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [shape, theme, isDark, isStacked, height, language()]);
  useEffect(() => {
    plot.current?.setData(data);
  }, [data]);
  const [at, setAt] = useState(/** @type {number | null} */ (null));
  const index = at !== null && at < xs.length ? at : xs.length - 1;
  const value = (/** @type {{values: (number | null)[]}} */ one) => {
    const v = one.values[index];
    return v === null || v === undefined ? "–" : format(v);
  };
  return html`<figure class="chart"><figcaption class="legend"><span class="legend-at">${xs[index] === undefined ? "" : utcText((xs[index] ?? 0) * 1000)}</span>
      ${series.map((one) => html`<span key=${one.label} class="legend-item"><i style=${{ background: `var(${one.color})` }} aria-hidden="true"></i>${one.label} <b class="num">${value(one)}</b></span>`)}</figcaption>
    <div class="plot" ref=${box} role="img" aria-label=${`${label}. ${series.map((one) => `${one.label}: ${value(one)}`).join(", ")}`}></div></figure>`;
}
