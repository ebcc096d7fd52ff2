/** Marks on a chart: events at their times. */
import { html } from "../core/lib.js";
import { t } from "../core/i18n.js";
import { Text } from "./formats.js";

/**
 * @typedef {{atMs: number, untilMs: number | null, kind: string, label: string, text: string, link: string | null}} ChartMark
 *   `label`: the word for the kind. `untilMs`: the end of a mark that has a duration.
 */

const COLORS = /** @type {Record<string, string>} */ ({ incident: "--failed", pause: "--retrying" });
const MAX_LISTED = 6;
const LAST_ALPHA = 0.14;

/** @param {ChartMark} mark */
const colorOf = ({ kind }) => COLORS[kind] ?? "--muted";

/**
 * Draw the marks of the visible period: a line at the start of each, and a band over its duration.
 * @param {import("../vendor/uplot.js").default} plot
 * @param {ChartMark[]} marks
 */
export function drawMarks(plot, marks) {
  const { ctx, bbox, scales } = plot;
  const { min, max } = scales["x"] ?? {};
  if (typeof min !== "number" || typeof max !== "number") return;
  const styles = getComputedStyle(plot.root);
  ctx.save();
  ctx.setLineDash([4, 4]);
  ctx.lineWidth = devicePixelRatio;
  for (const mark of marks) {
    const [from, to] = [mark.atMs / 1000, (mark.untilMs ?? mark.atMs) / 1000];
    if (to < min || from > max) continue;
    const color = styles.getPropertyValue(colorOf(mark)).trim();
    const left = plot.valToPos(Math.max(from, min), "x", true);
    const right = plot.valToPos(Math.min(to, max), "x", true);
    if (right - left > 1) {
      ctx.globalAlpha = LAST_ALPHA;
      ctx.fillStyle = color;
      ctx.fillRect(left, bbox.top, right - left, bbox.height);
      ctx.globalAlpha = 1;
    }
    if (from < min) continue;
    ctx.strokeStyle = color;
    ctx.beginPath();
    ctx.moveTo(left, bbox.top);
    ctx.lineTo(left, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.restore();
}

/**
 * @param {ChartMark[]} marks
 * @param {number | undefined} fromS
 * @param {number | undefined} toS
 * @returns {ChartMark[]} The marks within this period.
 */
export const marksIn = (marks, fromS, toS) =>
  fromS === undefined || toS === undefined
    ? []
    : marks.filter(({ atMs, untilMs }) => (untilMs ?? atMs) / 1000 >= fromS && atMs / 1000 <= toS);

/** @param {{marks: ChartMark[], timeOf: (ms: number) => string, more: string}} props `more`: the address of the page with all marks. */
export function MarkList({ marks, timeOf, more }) {
  if (marks.length === 0) return null;
  const hidden = marks.length - MAX_LISTED;
  return html`<ul class="chart-marks" aria-label=${t("chart.marks")}>
      ${marks
        .slice(-MAX_LISTED)
        .reverse()
        .map(
          (mark) =>
            html`<li key=${`${mark.atMs} ${mark.text}`}>
                <i style=${{ background: `var(${colorOf(mark)})` }} aria-hidden="true"></i>
                <span class="num">${timeOf(mark.atMs)}</span> <b>${mark.label}</b> ${
                  mark.link
                    ? html`<a href=${mark.link}><${Text} value=${mark.text} max=${120} /></a>`
                    : html`<${Text} value=${mark.text} max=${120} />`
                }
              </li>`,
        )}${hidden > 0 && html`<li><a href=${more}>${t("text.more_items", { count: hidden })}</a></li>`}
    </ul>`;
}
