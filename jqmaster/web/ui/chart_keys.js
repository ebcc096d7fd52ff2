/** The keys of a chart. */

/** @typedef {{min: number, max: number}} Zoom The visible period after a zoom, in Unix seconds. */

// A chart cannot be zoomed in to fewer points than this.
const MIN_POINTS = 5;

/**
 * Act on a key: move through time, mark a range, open it, zoom.
 * @param {KeyboardEvent} event
 * @param {{plot: import("../vendor/uplot.js").default | null, xs: number[], at: number, anchor: {current: number | null}, zoom: Zoom | null,
 *   setZoom: (zoom: Zoom | null) => void, onRange: ((from: string, to: string) => void) | undefined}} chart `at`: the index of the point that is shown.
 * @returns {boolean} Whether the key means something.
 */
export function byKey({ key, shiftKey }, { plot, xs, at, anchor, zoom, setZoom, onRange }) {
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
