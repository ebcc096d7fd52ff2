/** The fault of a namespace, and the order of namespaces in lists: the worst first. */
import { t } from "../core/i18n.js";

/** @typedef {import("../../answers").Schemas["OverviewEntry"]} Entry */

/** @param {Entry} one @returns {string} The fault in words; "" without a fault. */
export function faultOf(one) {
  if (one.state === "closed") return "";
  if (one.fault) return one.fault;
  if (one.state !== "open") return t(`namespaces.fault.${one.state}`);
  if (one.leader === null) return t("namespaces.fault.no_leader");
  if (isFull(one)) return t("namespaces.fault.full");
  return one.failed_move ? t("namespaces.fault.move", { reason: one.failed_move }) : "";
}

/** @param {Entry} one Returns whether the namespace does not work. */
export const isBad = (one) =>
  one.state !== "closed" && (Boolean(one.fault) || one.state !== "open" || one.leader === null);

/** @param {Entry} one */
export const isFull = (one) => one.waiting_quota !== null && one.waiting_quota >= 1;

/** @param {Entry} one Returns whether the namespace works, but people should look at it. */
export const isWarned = (one) => isFull(one) || one.failed_move !== null;

/** @param {Entry} one @returns {number} The place in the order; the worst namespace has the lowest number. */
function rankOf(one) {
  if (one.state === "closed") return 3;
  if (isBad(one)) return 0;
  return isWarned(one) ? 1 : 2;
}

/**
 * @param {readonly Entry[]} entries
 * @returns {Entry[]} The namespaces, the worst first: those with faults, then full ones, then the others by their
 *   longest wait. Closed ones are last.
 */
export const worstFirst = (entries) =>
  [...entries].sort(
    (a, b) =>
      rankOf(a) - rankOf(b) ||
      (b.oldest_wait_s ?? 0) - (a.oldest_wait_s ?? 0) ||
      (b.failures ?? 0) - (a.failures ?? 0),
  );
