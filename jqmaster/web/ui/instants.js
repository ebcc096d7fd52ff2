/** Instants in inputs. They are in the reader's time zone, or in UTC if the reader chose UTC. */
import { t } from "../core/i18n.js";
import { pref, usePref } from "../core/prefs.js";
import { localText, utcText } from "./formats.js";

// The latest time that an input accepts. A year of five digits is a typing error, and the API accepts none.
export const LATEST = "9999-12-31T23:59:59";

const isUtc = () => pref("times", "relative") === "utc";

/** @param {number} ms Unix. @returns {string} The zone of the inputs at that time, such as `UTC` or `GMT+9`. */
const zoneAt = (ms) => (isUtc() ? "UTC" : (localText(ms).split(" ")[2] ?? "UTC"));

/**
 * Return a label that names the time zone of its input.
 * @param {string} label
 * @param {string} [value] The value of the input: in summer time the zone is different.
 */
export function inZone(label, value = "") {
  const ms = Date.parse(value);
  return t("zone.label", { label, zone: zoneAt(Number.isNaN(ms) ? Date.now() : ms) });
}

/** Draw the component again when the reader chooses another zone. */
export const useZone = () => void usePref("times", "relative");

/**
 * @param {string | null | undefined} at ISO 8601.
 * @returns {string} The value for an input, such as `2026-11-21T04:30:00`; "" for no instant.
 */
export function inputOf(at) {
  const ms = at ? Date.parse(at) : NaN;
  if (Number.isNaN(ms)) return "";
  return (isUtc() ? utcText(ms) : localText(ms)).slice(0, 19).replace(" ", "T");
}

/**
 * @param {string} text The text of an input. @returns {string} The instant as ISO 8601 in UTC; "" for other texts.
 */
export function instantIn(text) {
  if (!text || text > LATEST) return "";
  const whole = text.length === 16 ? `${text}:00` : text;
  const ms = Date.parse(isUtc() ? `${whole}Z` : whole);
  return Number.isNaN(ms) ? "" : new Date(ms).toISOString().replace(".000Z", "Z");
}

/**
 * @param {string} text The text of an input. @param {string | null | undefined} opened The instant that the input was
 *   opened with.
 * @returns {string} `opened` with its milliseconds if the input was not changed. Otherwise the result of `instantIn`. A
 *   text that is not an instant is returned unchanged, so that the API refuses it. An empty text would mean no instant.
 */
export const editedInstant = (text, opened) =>
  opened && text === inputOf(opened) ? opened : instantIn(text) || text;
