/** The points of a history that a chart may draw: points of complete steps, from the first counts on. */
import { nowMs } from "./formats.js";

/** @typedef {import("../../answers").Schemas["StatsPoint"]} StatsPoint */
/** @typedef {"succeeded" | "discarded" | "failed" | "canceled" | "skipped" | "retried"} CountKey */

/** @type {CountKey[]} */
const COUNTED = ["succeeded", "discarded", "failed", "canceled", "skipped", "retried"];

/**
 * Return the points of a history with complete steps. The current minute still lacks some of its jobs, and would look
 * like a dip.
 * @param {{points: StatsPoint[], step_s: number}} history
 * @returns {StatsPoint[]}
 */
export const completePoints = ({ points, step_s }) =>
  points.filter((point, at) => at < points.length - 1 || Date.parse(point.at) + step_s * 1000 <= nowMs());

/**
 * Return a function that computes the rates of a count. They are null before the first step with a sample or a count:
 * the store did not exist then, and a line at 0 would look like an outage.
 * @param {StatsPoint[]} points
 * @param {number} stepS
 * @returns {(key: CountKey) => (number | null)[]}
 */
export function ratesOf(points, stepS) {
  const first = points.findIndex(
    (point) => point.backlog !== null || COUNTED.some((key) => (point[key] ?? 0) > 0),
  );
  return (key) => points.map((point, at) => (first < 0 || at < first ? null : (point[key] ?? 0) / stepS));
}
