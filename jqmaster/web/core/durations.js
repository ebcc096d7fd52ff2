/** Parses durations and ends of durations as people type them in English or Japanese. */

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
/** @type {[number, string][]} The length of each unit in ms, and its words in both languages. */
const UNITS = [
  [SECOND, "s|sec|secs|second|seconds|秒|秒間"],
  [MINUTE, "m|min|mins|minute|minutes|分|分間"],
  [HOUR, "h|hr|hrs|hour|hours|時間"],
  [DAY, "d|day|days|日|日間"],
  [7 * DAY, "w|week|weeks|週|週間"],
];
const SIZES = new Map(UNITS.flatMap(([size, words]) => words.split("|").map((word) => [word, size])));
const WORDS = [...SIZES.keys()].sort((a, b) => b.length - a.length).join("|");
/** A number with its unit. 半 after the unit, as in 1時間半, adds half a unit. */
const PART = new RegExp(`^(\\d+(?:[.,]\\d+)?) ?(${WORDS})(?![a-z])(半)?(?:[ ,]|and |と)*`);
/** Hours and minutes without the last unit, such as 1h30. */
const SHORT = /^(\d+) ?(?:h|時間)(\d{1,2})$/;
const ENDLESS = new Set(["forever", "no end", "without end", "無期限", "ずっと"]);
const HALVES = /** @type {Record<string, string>} */ ({ half: "0.5", an: "1", a: "1", one: "1" });
const WEEKDAYS = ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"];
const WEEKDAYS_JA = "日月火水木金土";
const CLOCK = /^(?:at )?(午前|午後)?(\d{1,2})(?::(\d{2})|時(?:(\d{1,2})分|(半))?)? ?(am|pm|a\.m\.|p\.m\.)?$/;

/**
 * @param {string} text Such as `45m`, `1h30`, `1 hour and 30 minutes`, `until 18:00`, `until tomorrow 9:00`, `30 分`,
 *   `1時間半`, `18時まで` or `forever`. A number without a unit has no meaning, except 0.
 * @param {number} nowMs Unix.
 * @param {boolean} isUtc Whether a clock time is in UTC, and not in the zone of this browser.
 * @returns {number | null} Milliseconds from now on; Infinity if there is no end; null if the text is not understood,
 *   or if the instant is past.
 */
export function durationIn(text, nowMs, isUtc) {
  const plain = text.normalize("NFKC").trim().toLowerCase().replace(/\s+/g, " ");
  if (ENDLESS.has(plain)) return Infinity;
  const until = plain.match(/^(?:until|till|by) (.+)$/)?.[1] ?? plain.match(/^(.+?) ?(?:まで|迄)$/)?.[1];
  const length = until === undefined ? lengthOf(plain) : null;
  if (length !== null) return length;
  const end = instantOf(until ?? plain, nowMs, isUtc);
  return end === null || end <= nowMs ? null : end - nowMs;
}

/** @param {string} plain @returns {number | null} */
function lengthOf(plain) {
  if (plain === "0") return 0;
  let rest = plain
    .replace(/^(?:for|in) /, "")
    .replace(/ ?(?:後|の間)$/, "")
    .replace(/\b(half|an|a|one)(?: an?)? (?=[a-z])/g, (_, word) => `${HALVES[word]} `)
    .replace(/^半(?=日|時間)/, "0.5");
  const short = rest.match(SHORT);
  if (short) return Number(short[1]) * HOUR + Number(short[2]) * MINUTE;
  let total = 0;
  let last = Infinity;
  while (rest) {
    const [whole = "", count = "", unit = "", half] = rest.match(PART) ?? [];
    const size = SIZES.get(unit);
    // Accept only smaller units after larger ones: "5 min 2 h" is more likely a typing error.
    if (!size || size >= last) return null;
    total += (Number(count.replace(",", ".")) + (half ? 0.5 : 0)) * size;
    last = size;
    rest = rest.slice(whole.length);
  }
  return last === Infinity ? null : total;
}

/**
 * @param {string} plain A day, a clock time, or both. A day alone means its beginning.
 * @param {number} nowMs
 * @param {boolean} isUtc
 * @returns {number | null} Unix.
 */
function instantOf(plain, nowMs, isUtc) {
  const now = new Date(nowMs);
  const today = isUtc
    ? [now.getUTCFullYear(), now.getUTCMonth(), now.getUTCDate(), now.getUTCDay()]
    : [now.getFullYear(), now.getMonth(), now.getDate(), now.getDay()];
  const [year = 0, month = 0, day = 0, weekday = 0] = today;
  const make = (
    /** @type {number} */ y,
    /** @type {number} */ m,
    /** @type {number} */ d,
    /** @type {number} */ h,
    /** @type {number} */ min,
  ) => (isUtc ? Date.UTC(y, m, d, h, min) : new Date(y, m, d, h, min).getTime());
  const dated = plain.match(/^(\d{4})-(\d{2})-(\d{2})(?:[ t](.+))?$/);
  if (dated) {
    const clock = clockOf(dated[4] ?? "0:00");
    const [y, m, d] = [Number(dated[1]), Number(dated[2]) - 1, Number(dated[3])];
    const isDay = new Date(Date.UTC(y, m, d)).getUTCDate() === d;
    return clock && isDay ? make(y, m, d, clock[0], clock[1]) : null;
  }
  const { days, rest } = dayOf(plain, weekday);
  const clock = clockOf(rest || (days === null ? "" : "0:00"));
  if (!clock) return null;
  const at = make(year, month, day + (days ?? 0), clock[0], clock[1]);
  // A time without a day means its next occurrence: at 19:00, "until 18:00" ends tomorrow.
  return days === null && at <= nowMs ? make(year, month, day + 1, clock[0], clock[1]) : at;
}

/**
 * @param {string} plain
 * @param {number} weekday The day of the week today.
 * @returns {{days: number | null, rest: string}} `days`: how many days from today, null if the text names no day.
 *   `rest`: the clock time.
 */
function dayOf(plain, weekday) {
  const named = plain.match(/^(today|tomorrow|今日|本日|明日|明後日)(?:の| at)? ?(.*)$/);
  if (named) {
    const days = { tomorrow: 1, 明日: 1, 明後日: 2 }[named[1] ?? ""] ?? 0;
    return { days, rest: named[2] ?? "" };
  }
  const english = plain.match(/^(?:next )?([a-z]{3,9})(?: at)?(?: (.*))?$/);
  const japanese = plain.match(/^(?:次の)?([日月火水木金土])曜日?(?:の)? ?(.*)$/);
  const at = english
    ? WEEKDAYS.findIndex((one) => one === english[1] || one.slice(0, 3) === english[1])
    : japanese
      ? WEEKDAYS_JA.indexOf(japanese[1] ?? "")
      : -1;
  if (at < 0) return { days: null, rest: plain };
  return { days: ((at - weekday + 6) % 7) + 1, rest: (english ?? japanese)?.[2] ?? "" };
}

/** @param {string} text @returns {[number, number] | null} Hours and minutes. */
function clockOf(text) {
  if (text === "noon" || text === "正午") return [12, 0];
  if (text === "midnight") return [24, 0];
  const found = text.match(CLOCK);
  if (!found) return null;
  const [, half, hours = "", colon, minutes, isHalfPast, english] = found;
  // Refuse a number alone, which is not a time.
  if (colon === undefined && !english && !text.includes("時")) return null;
  const isTwelve = Boolean(half || english);
  const isAfternoon = half === "午後" || Boolean(english?.startsWith("p"));
  let hour = Number(hours);
  const minute = isHalfPast ? 30 : Number(colon ?? minutes ?? 0);
  if (minute > 59 || hour > (isTwelve ? 12 : 24) || (hour === 24 && minute > 0)) return null;
  if (isTwelve) hour = (hour % 12) + (isAfternoon ? 12 : 0);
  return [hour, minute];
}
