/** Compares the current period with an earlier one, hour by hour. */
import { get } from "../core/api.js";
import { t } from "../core/i18n.js";
import { html } from "../core/lib.js";
import { useResource } from "../core/resource.js";

/** @typedef {import("../../answers").Schemas["StatsHistory"]} History */
/** @typedef {import("../../answers").Schemas["StatsPoint"]} StatsPoint */

const HOUR_S = 3600;
const DAY_S = 86_400;
/** How many seconds earlier the compared period is, by the word in the address. @type {Record<string, number>} */
export const PERIODS_S = { "1d": DAY_S, "7d": 7 * DAY_S };
/** Spans that cannot be compared, because figures by hour are kept for 30 days only. */
const NOT_WITH = ["30d"];

/** @param {string | undefined} word The word in the address. @param {string} span @returns {string} The word of the period. "": no comparison. */
export const comparedPeriod = (word, span) =>
  word !== undefined && word in PERIODS_S && !NOT_WITH.includes(span) ? word : "";

// Poll rarely, because an earlier period hardly changes.
const POLL_MS = 300_000;

/**
 * @param {string} word The word of the period. "": no comparison.
 * @param {string} span
 * @param {string} [name] A job name; by default all names.
 * @returns {History | null} The earlier period; null until it is loaded.
 */
export function useEarlier(word, span, name) {
  const { data } = useResource(
    (signal) =>
      word
        ? get("api/stats/history", { span, before: word, ...(name && { name }) }, signal)
        : Promise.resolve(null),
    [span, word, name],
    { everyMs: POLL_MS, pollMs: POLL_MS },
  );
  return data;
}

/** @param {StatsPoint} point @param {number} stepS Returns how many jobs ended per second, whatever their outcome. */
export const endsPerS = ({ succeeded, discarded = 0, failed, canceled, skipped }, stepS) =>
  (succeeded + discarded + failed + canceled + skipped) / stepS;

/**
 * @param {History | null} history The earlier period.
 * @param {string} word
 * @param {number[]} xs Unix seconds of the present period.
 * @param {(point: StatsPoint, stepS: number) => number | null} valueOf
 * @returns {{label: string, values: (number | null)[]} | null} For each instant of the present period, the value of the
 *   corresponding hour of the earlier period.
 */
export function comparedWith(history, word, xs, valueOf) {
  const back = PERIODS_S[word];
  if (!history || !back) return null;
  const hours = new Map(
    history.points.map((point) => [Math.floor(Date.parse(point.at) / 1000 / HOUR_S), point]),
  );
  const values = xs.map((x) => {
    const point = hours.get(Math.floor((x - back) / HOUR_S));
    return point ? valueOf(point, history.step_s) : null;
  });
  return { label: t(`chart.before.${word}`), values };
}

/** @param {{word: string, span: string, link: (word: string) => string}} props `link`: the address that compares with a period. */
export const CompareWith = ({ word, span, link }) =>
  NOT_WITH.includes(span)
    ? null
    : html`<nav class="spans" aria-label=${t("chart.compare")}>
        ${["", ...Object.keys(PERIODS_S)].map(
          (one) =>
            html`<a
                key=${one} class="chip-link" href=${link(one)}
                aria-current=${one === word ? "true" : undefined}>
                ${t(one ? `chart.before.${one}` : "chart.before.none")}
              </a>`,
        )}
      </nav>`;
