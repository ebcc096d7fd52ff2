/** Shows text, numbers, durations and times. Text from outside goes through `Text` or `visible`, so that it never becomes markup. */
import { number, t, tOr } from "../core/i18n.js";
import { html, useEffect, useState } from "../core/lib.js";
import { usePref } from "../core/prefs.js";
import { pieces, visible } from "../core/text.js";

/** @typedef {import("../core/lib.js").Node} Node */

/**
 * Text from outside. If it has more than `max` characters, a button shows the rest.
 * @param {{value: unknown, max?: number, isBlock?: boolean}} props
 */
export function Text({ value, max = 300, isBlock = false }) {
  const [isWhole, setWhole] = useState(false);
  const text = value === null || value === undefined ? "" : String(value);
  const isCut = !isWhole && text.length > max;
  const shown = isCut ? text.slice(0, max) : text;
  return html`<bdi class="text">${pieces(shown, isBlock).map((piece, i) =>
    i % 2 ? html`<span class="escape" title=${t("text.escape")}>${piece}</span>` : piece,
  )}</bdi>${
    isCut &&
    html`<button type="button" class="link" onClick=${(/** @type {Event} */ event) => {
      // Do not open the link that contains this text.
      event.preventDefault();
      event.stopPropagation();
      setWhole(true);
    }}>${t("text.more", { count: text.length - max })}</button>`
  }`;
}

/** @param {{text: string}} props Text of the master in which backticks mark code. */
export const Marked = ({ text }) =>
  html`<span>${text.split("`").map((part, at) => (at % 2 ? html`<code>${visible(part)}</code>` : visible(part)))}</span>`;

/** @param {{value: number | bigint | null | undefined, digits?: number}} props */
export function Num({ value, digits = 0 }) {
  if (value === null || value === undefined)
    return html`<span class="num none" aria-label=${t("none")}>–</span>`;
  return html`<span class="num">${number(value, { maximumFractionDigits: digits })}</span>`;
}

const UNITS = /** @type {const} */ ([
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["min", 60_000],
  ["s", 1000],
  ["ms", 1],
]);

/**
 * Return a duration in its two largest units, such as `3 min 20 s`. A duration below ten seconds has a fraction.
 * @param {number} ms
 * @param {boolean} isCoarse Whether to leave out the second unit if there are ten or more of the first, as in `12 h`.
 */
export function durationText(ms, isCoarse = false) {
  const sign = ms < 0 ? "−" : "";
  const all = Math.abs(ms);
  if (all < 1) return `${sign}${number(all, { maximumFractionDigits: 1 })} ${t("unit.ms")}`;
  if (all < 1000) return `${sign}${Math.round(all)} ${t("unit.ms")}`;
  if (all < 10_000) return `${sign}${number(all / 1000, { maximumFractionDigits: 1 })} ${t("unit.s")}`;
  const at = UNITS.findIndex(([, size]) => all >= size);
  const [unit, size] = UNITS[at] ?? ["ms", 1];
  const whole = Math.floor(all / size);
  const next = UNITS[at + 1];
  const hasRest = next && unit !== "s" && !(isCoarse && whole >= 10);
  const rest = hasRest ? Math.floor((all - whole * size) / next[1]) : 0;
  return (
    `${sign}${number(whole)} ${t(`unit.${unit}`)}` + (rest && next ? ` ${rest} ${t(`unit.${next[0]}`)}` : "")
  );
}

const MINUTE_MS = 60_000;
/**
 * @param {number} ms
 * @returns {number}
 *   The duration rounded to seconds, or to minutes if it is a minute or longer, so that its text changes less often.
 */
export function steadyMs(ms) {
  const step = ms < MINUTE_MS ? 1000 : MINUTE_MS;
  return Math.floor(ms / step) * step;
}

/** @param {{ms: number | null | undefined}} props */
export function Duration({ ms }) {
  if (ms === null || ms === undefined) return html`<span class="num none" aria-label=${t("none")}>–</span>`;
  return html`<span class="num">${durationText(ms)}</span>`;
}

/** @param {number} rate @returns {string} The rate in words, such as `3.4/s`. */
export const perSText = (rate) =>
  t("rate.per_s", { rate: number(rate, { maximumFractionDigits: rate < 0.1 ? 3 : rate < 10 ? 2 : 1 }) });

/** @param {number} bytes */
export function bytesText(bytes) {
  const names = ["B", "KiB", "MiB", "GiB", "TiB"];
  let value = bytes;
  let at = 0;
  while (value >= 1024 && at < names.length - 1) {
    value /= 1024;
    at += 1;
  }
  return `${number(value, { maximumFractionDigits: value < 10 && at ? 1 : 0 })} ${names[at]}`;
}

/** @param {{value: number | null | undefined}} props */
export function Bytes({ value }) {
  if (value === null || value === undefined)
    return html`<span class="num none" aria-label=${t("none")}>–</span>`;
  return html`<span class="num" title=${`${number(value)} B`}>${bytesText(value)}</span>`;
}

let skewMs = 0;
/** @param {string} at The master's time in an answer that has just arrived. Times on pages are relative to the master's clock. */
export function tellTime(at) {
  const ms = Date.parse(at) - Date.now();
  if (Number.isFinite(ms)) skewMs = ms;
}
/** @returns {number} The present Unix ms by the master's clock; by this browser's clock until the master's is known. */
export const nowMs = () => Date.now() + skewMs;

/** @type {Set<() => void>} */
const tickers = new Set();
setInterval(() => {
  if (!document.hidden) for (const tick of [...tickers]) tick();
}, 1000);
/** Redraw the component every second while the page is visible. */
export function useTick() {
  const [, redraw] = useState(0);
  useEffect(() => {
    const tick = () => redraw((/** @type {number} */ n) => n + 1);
    tickers.add(tick);
    return () => void tickers.delete(tick);
  }, []);
}

/**
 * @param {number} ms Unix.
 * @returns {string} The instant in UTC, for example `2026-11-21 04:30:00 UTC`.
 */
export function utcText(ms) {
  const date = new Date(ms);
  return Number.isNaN(date.getTime())
    ? "?"
    : date
        .toISOString()
        .replace("T", " ")
        .replace(/\.\d+Z$/, " UTC");
}

// Create the format once, because this takes longer than to draw a row.
const zoneFormat = new Intl.DateTimeFormat("en", { timeZoneName: "short" });

/**
 * @param {number} ms Unix.
 * @returns {string} The instant in the reader's time zone, such as `2026-11-21 13:30:00 GMT+9`.
 */
export function localText(ms) {
  const date = new Date(ms);
  if (Number.isNaN(date.getTime())) return "?";
  const two = (/** @type {number} */ part) => String(part).padStart(2, "0");
  const zone = zoneFormat.formatToParts(date).find((part) => part.type === "timeZoneName");
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  const clock = [date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join(":");
  return `${day} ${clock} ${zone?.value ?? ""}`;
}

/** @param {number} ms Unix. @param {string} mode "utc": in UTC. Any other text: in the reader's time zone. */
export const instantText = (ms, mode) => (mode === "utc" ? utcText(ms) : localText(ms));

/**
 * @param {number} ms Unix.
 * @param {string} mode As for `instantText`.
 * @returns {{day: string, clock: string, zone: string}} The parts of the instant, for example `2026-11-21`, `13:30:00`
 *   and `GMT+9`.
 */
export function instantParts(ms, mode) {
  const [day = "", clock = "", zone = ""] = instantText(ms, mode).split(" ");
  return { day, clock, zone };
}

/**
 * @param {number} ms Unix.
 * @param {string} mode As for `instantText`.
 * @returns {string} The time of day, for example `13:30:00 GMT+9`. It has the date if the instant is not today.
 */
export function clockText(ms, mode) {
  const { day, clock, zone } = instantParts(ms, mode);
  return `${day === instantParts(nowMs(), mode).day ? "" : `${day} `}${clock} ${zone}`;
}

/** @param {number} ms Unix. @returns {string} The time of day in the reader's zone, for example `02:30`. It has the date if the instant is not today. */
export function minuteText(ms) {
  const { day, clock } = instantParts(ms, "local");
  return `${day === instantParts(nowMs(), "local").day ? "" : `${day.slice(5)} `}${clock.slice(0, 5)}`;
}

/** @param {number} ms Unix. */
export function relativeText(ms) {
  const ago = nowMs() - ms;
  if (Math.abs(ago) < 1000) return t("time.now");
  // Round times of a minute or more to minutes: nobody reads a text that changes every second.
  const step = Math.abs(ago) < 60_000 ? 1000 : 60_000;
  const rounded = step === 1000 ? Math.round(ago / step) * step : Math.trunc(ago / step) * step;
  return rounded > 0
    ? t("time.ago", { duration: durationText(rounded, true) })
    : t("time.in", { duration: durationText(-rounded, true) });
}

/**
 * An instant in the form that the reader chose: relative, in the reader's time zone, or in UTC. The title has all three
 * forms.
 * @param {{at: string | null | undefined, isNext?: boolean, isPast?: boolean}} props
 *   `at`: ISO 8601. `isNext`: something is due at the instant; once the instant is past, the text is "now". `isPast`:
 *   the text also has the time of day, for readers who look back.
 */
export function Time({ at, isNext = false, isPast = false }) {
  useTick();
  const [mode] = usePref("times", "relative");
  if (!at) return html`<span class="num none" aria-label=${t("none")}>–</span>`;
  const ms = Date.parse(at);
  if (Number.isNaN(ms)) return html`<${Text} value=${at} />`;
  const relative = isNext && ms < nowMs() ? t("time.now") : relativeText(ms);
  const shown = mode === "relative" ? relative : instantText(ms, mode);
  return html`<time class="num" datetime=${at} title=${[relative, localText(ms), utcText(ms)].join(" · ")}>
      ${shown}${isPast && mode === "relative" && html` <span class="muted">${minuteText(ms)}</span>`}
    </time>`;
}

/** @param {{id: string, href?: string}} props A UUID. Only its end is shown, because the beginnings of UUIDs are often equal. */
export function Id({ id, href }) {
  const short = id.length > 13 ? `…${id.slice(-10)}` : id;
  return href
    ? html`<a class="id" href=${href} title=${visible(id)}>${visible(short)}</a>`
    : html`<span class="id" title=${visible(id)}>${visible(short)}</span>`;
}

/** @param {{state: string}} props */
export function State({ state }) {
  return html`<span class=${`state state-${state}`}><i aria-hidden="true"></i>${tOr(`state.${state}`, visible(state))}</span>`;
}

/** @typedef {"ok" | "warn" | "bad" | "info" | "off"} Kind */

/** @param {{kind?: Kind, children?: Node}} props */
export function Badge({ kind = "info", children }) {
  return html`<span class=${`badge badge-${kind}`}>${children}</span>`;
}
