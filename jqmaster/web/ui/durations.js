/** Durations and ends as people write them: `45m`, `1h 30m`, `until 18:00`, `tomorrow 9:00`, `30 分`, `18時まで`. */
import { Problem } from "../core/api.js";
import { t } from "../core/i18n.js";
import { html } from "../core/lib.js";
import { pref } from "../core/prefs.js";
import { Field } from "./forms.js";
import { clockText, durationText, nowMs } from "./formats.js";
import { inputOf, instantIn } from "./instants.js";

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;
const SUGGESTED_MS = [15, 30, 60, 120, 240, 1440].map((minutes) => minutes * MINUTE_MS);

/** @type {[RegExp, number][]} */
const UNITS = [
  [/^(?:s|sec|secs|seconds?|秒間?)$/, 1000],
  [/^(?:m|min|mins|minutes?|分間?)$/, MINUTE_MS],
  [/^(?:h|hr|hrs|hours?|時間)$/, 60 * MINUTE_MS],
  [/^(?:d|days?|日間?)$/, DAY_MS],
  [/^(?:w|weeks?|週間?)$/, 7 * DAY_MS],
];
const PART = /(\d+(?:[.,]\d+)?)\s*([a-z]+|秒間?|分間?|時間|日間?|週間?)/y;
const CLOCK =
  /^(?:until|till)?\s*(tomorrow|明日)?(?:の|\s)*(?:at\s+)?(\d{1,2})(?::(\d{2})|時(?:(\d{1,2})分)?|時(半))\s*(?:まで)?$/;
const DATE = /^(?:until|till)?\s*(\d{4}-\d{2}-\d{2})(?:[t\s]+(\d{1,2}):(\d{2}))?\s*(?:まで)?$/;

/**
 * @param {string} text
 * @param {number} [now] Unix ms.
 * @returns {number | null} When it ends, in Unix ms; null for a text that is not understood, or that has passed. A time
 *   of day is the next one, in the time zone of the page.
 */
export function endOf(text, now = nowMs()) {
  const plain = text.normalize("NFKC").trim().toLowerCase();
  const lasts = lengthOf(plain.replace(/^for\s+/, ""));
  if (lasts !== null) return lasts > 0 ? now + lasts : null;
  const clock = CLOCK.exec(plain);
  if (clock) {
    const [, tomorrow, hour = "", minute, jaMinute, half] = clock;
    const today = inputOf(new Date(now).toISOString()).slice(0, 10);
    const at = instantAt(today, hour, minute ?? jaMinute ?? (half ? "30" : "00"));
    if (at === null) return null;
    return tomorrow || at <= now ? at + DAY_MS : at;
  }
  const date = DATE.exec(plain);
  if (!date) return null;
  const at = instantAt(date[1] ?? "", date[2] ?? "0", date[3] ?? "00");
  return at !== null && at > now ? at : null;
}

/** @param {string} text Such as `1h 30m`. @returns {number | null} */
function lengthOf(text) {
  let sum = 0;
  let at = 0;
  while (at < text.length) {
    PART.lastIndex = at;
    const part = PART.exec(text);
    const unit = part && UNITS.find(([words]) => words.test(part[2] ?? ""));
    if (!part || !unit) return null;
    sum += Number((part[1] ?? "").replace(",", ".")) * unit[1];
    at = PART.lastIndex;
    while (text[at] === " " || text[at] === ",") at += 1;
  }
  return at === 0 ? null : sum;
}

/** @param {string} day @param {string} hour @param {string} minute @returns {number | null} */
function instantAt(day, hour, minute) {
  if (Number(hour) > 23 || Number(minute) > 59) return null;
  const iso = instantIn(`${day}T${hour.padStart(2, "0")}:${minute.padStart(2, "0")}:00`);
  return iso ? Date.parse(iso) : null;
}

/** @param {string} field @returns {Problem} What a form shows at its field whose text is neither a duration nor an end. */
export const unreadable = (field) =>
  new Problem(422, { title: t("duration.unknown"), errors: [{ loc: [field], msg: t("duration.rule") }] });

/**
 * A field for a duration or an end, with suggestions to press. It says when that is.
 * @param {{form: import("./forms.js").Form, name: string, label: string, empty?: string, path?: string}} props
 *   `empty`: what an empty field means; without it, a duration is needed.
 */
export function DurationField({ form, name, label, empty, path }) {
  const text = form.values[name] ?? "";
  const end = text.trim() ? endOf(text) : null;
  const said = !text.trim()
    ? (empty ?? t("duration.hint"))
    : end === null
      ? t("duration.unknown")
      : t("duration.until", {
          time: clockText(end, pref("times", "relative")),
          duration: durationText(Math.round((end - nowMs()) / 1000) * 1000),
        });
  return html`<${Field} label=${label} hint=${html`<span role="status">${said}</span>`} problem=${form.problem} path=${path ?? name}>${(
    /** @type {any} */ attributes,
  ) =>
    html`<input autocomplete="off" spellcheck=${false} maxlength="60" placeholder=${t("duration.example")} ...${attributes} ...${form.input(name)} />
      <div class="suggested">${SUGGESTED_MS.map((ms) => html`<button type="button" key=${ms} class="button small" onClick=${() => form.set({ [name]: durationText(ms) })}>${durationText(ms)}</button>`)}</div>`}<//>`;
}
