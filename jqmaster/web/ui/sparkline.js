/** A small bar chart for one row, hour by hour. */
import { html } from "../core/lib.js";

const WIDTH = 5;
const GAP = 1;
const HEIGHT = 28;

/** @param {{values: number[], label: string}} props `label`: says in words what the bars show. */
export function Sparkline({ values, label }) {
  const most = Math.max(1, ...values);
  const width = values.length * (WIDTH + GAP) - GAP;
  return html`<svg
      class="sparkline" role="img" aria-label=${label} width=${width} height=${HEIGHT} preserveAspectRatio="xMaxYMax"
      viewBox=${`0 0 ${width} ${HEIGHT}`}>
      <title>${label}</title>${values.map((value, at) => {
        const height = value > 0 ? Math.max(2, (value / most) * HEIGHT) : 1;
        return html`<rect key=${at} class=${value > 0 ? "" : "none"} x=${at * (WIDTH + GAP)} y=${HEIGHT - height} width=${WIDTH} height=${height} />`;
      })}
    </svg>`;
}
