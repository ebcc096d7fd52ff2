/** Convert the schedules of definitions between API documents, form fields and words. */
import { language, number, t } from "../core/i18n.js";
import { visible } from "../core/text.js";
import { instantParts } from "../ui/formats.js";

/** @typedef {import("../ui/forms.js").Values} Values */
/** @typedef {import("../../answers").Schemas["DefinitionView"]} Definition */
/** @typedef {NonNullable<Definition["schedule"]>} Schedule */

/** The kinds of schedules, in the order of the list. Only the last one requires knowledge of cron. */
export const WAYS = ["every", "hourly", "daily", "weekly", "monthly", "cron"];
export const DAYS = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
const HOUR = 60;
/** A Monday. */
const MONDAY_MS = Date.UTC(2024, 0, 1);
// Matches the cron expressions that the form writes for a day of the month. The form leaves other expressions
// unchanged.
const MONTHLY = /^(\d{1,2}) (\d{1,2}) (\d{1,2}|L) \* \*$/;

/** @type {Values} */
const BLANK = {
  way: "daily",
  every: "5",
  every_unit: "minutes",
  offset: "0",
  minute: "0",
  time: "02:30",
  day_of_month: "1",
  cron: "",
  ...Object.fromEntries(DAYS.map((day) => [day, day === "mon" ? "yes" : ""])),
};

/** @param {string} text A number of at most two digits. */
const two = (text) => text.padStart(2, "0");

/** @param {Schedule | null} schedule null: the definition is new. @returns {Values} The fields of a form. */
export function valuesOfSchedule(schedule) {
  if (!schedule) return BLANK;
  if ("every_minutes" in schedule) {
    const isHours = schedule.every_minutes % HOUR === 0;
    return {
      ...BLANK,
      way: "every",
      every: String(isHours ? schedule.every_minutes / HOUR : schedule.every_minutes),
      every_unit: isHours ? "hours" : "minutes",
      offset: String(schedule.offset ?? 0),
    };
  }
  if ("hourly_at" in schedule) return { ...BLANK, way: "hourly", minute: String(schedule.hourly_at) };
  if ("daily_at" in schedule) return { ...BLANK, way: "daily", time: schedule.daily_at };
  if ("weekly_on" in schedule) {
    const days = DAYS.map((day) => [day, schedule.weekly_on.some((one) => one === day) ? "yes" : ""]);
    return { ...BLANK, way: "weekly", time: schedule.at, ...Object.fromEntries(days) };
  }
  const monthly = monthlyOf(schedule.cron);
  if (monthly) return { ...BLANK, way: "monthly", time: monthly.at, day_of_month: monthly.day };
  return { ...BLANK, way: "cron", cron: schedule.cron };
}

/** @param {string} cron */
function monthlyOf(cron) {
  const [, minute = "", hour = "", day = ""] = MONTHLY.exec(cron) ?? [];
  return day && Number(hour) < 24 && Number(minute) < 60 ? { at: `${two(hour)}:${two(minute)}`, day } : null;
}

/**
 * Return text that is not a number unchanged: the API's error then names the field and the rule.
 * @param {string | undefined} text
 */
export function asNumber(text) {
  const typed = (text ?? "").trim();
  return typed !== "" && Number.isFinite(Number(typed)) ? Number(typed) : typed || null;
}

/** @param {Values} values The values of a form. @returns {object} The schedule as the API takes it. */
export function scheduleIn(values) {
  const at = values["time"] ?? "";
  switch (values["way"]) {
    case "every": {
      const every = asNumber(values["every"]);
      const isHours = values["every_unit"] === "hours" && typeof every === "number";
      return { every_minutes: isHours ? every * HOUR : every, offset: asNumber(values["offset"]) ?? 0 };
    }
    case "hourly":
      return { hourly_at: asNumber(values["minute"]) };
    case "weekly":
      return { weekly_on: DAYS.filter((day) => values[day]), at };
    case "monthly": {
      const [hour = "", minute = ""] = at.split(":");
      return { cron: `${Number(minute)} ${Number(hour)} ${values["day_of_month"]} * *` };
    }
    case "cron":
      return { cron: (values["cron"] ?? "").trim() };
    default:
      return { daily_at: at };
  }
}

/** @param {string} day @param {"long" | "short"} [weekday] @returns {string} The name of the day in the reader's language. */
export const dayText = (day, weekday = "short") =>
  new Intl.DateTimeFormat(language(), { weekday, timeZone: "UTC" }).format(
    MONDAY_MS + DAYS.indexOf(day) * 86_400_000,
  );

/** @param {Schedule} schedule @returns {string} The schedule in words, without its time zone. */
export function scheduleText(schedule) {
  if ("every_minutes" in schedule) {
    const isHours = schedule.every_minutes % HOUR === 0;
    const count = isHours ? schedule.every_minutes / HOUR : schedule.every_minutes;
    const text = t(isHours ? "definitions.every_hours" : "definitions.every_minutes", { count });
    return schedule.offset ? t("definitions.with_offset", { text, minutes: number(schedule.offset) }) : text;
  }
  if ("hourly_at" in schedule) return t("definitions.hourly_at", { minute: two(String(schedule.hourly_at)) });
  if ("daily_at" in schedule) return t("definitions.daily_at", { at: schedule.daily_at });
  if ("weekly_on" in schedule) {
    const days = schedule.weekly_on.map((day) => dayText(day)).join(", ");
    return t("definitions.weekly_at", { days, at: schedule.at });
  }
  const monthly = monthlyOf(schedule.cron);
  if (!monthly) return visible(schedule.cron);
  return monthly.day === "L"
    ? t("definitions.monthly_last_at", { at: monthly.at })
    : t("definitions.monthly_at", { day: monthly.day, at: monthly.at });
}

/** @param {Definition} one A definition of any kind. @returns {string} The trigger of the definition, in words. */
export const startText = (one) =>
  one.schedule
    ? `${scheduleText(one.schedule)} · ${visible(one.time_zone)}`
    : t("definitions.on_event", { type: visible(one.event_type ?? one.kind) });

/** @returns {string} The reader's own time zone. */
export const ownZone = () => {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  return zone && /^[A-Za-z]/.test(zone) && zone !== "Etc/Unknown" ? zone : "UTC";
};

/** @returns {string[]} The names of all zones that the browser knows. */
export const zones = () => ["UTC", ...(Intl.supportedValuesOf?.("timeZone") ?? [])];

/**
 * Convert a local time of the API, such as `2026-11-24T02:30:00+09:00`.
 * @param {string} local
 * @returns {string} The time for readers, for example `Tue 2026-11-24 02:30 (+09:00)`.
 */
export function wallText(local) {
  const [date = "", clock = ""] = local.split("T");
  const day = new Intl.DateTimeFormat(language(), { weekday: "short", timeZone: "UTC" });
  return `${day.format(Date.parse(`${date}T00:00:00Z`))} ${date} ${shortClock(clock.slice(0, 8))} (${clock.slice(8) || "+00:00"})`;
}

/**
 * @param {string} at ISO 8601.
 * @param {string} mode See `instantParts`.
 * @returns {string} The instant in the zone of the page, such as `Tue 2026-11-24 18:30`.
 */
export function ownText(at, mode) {
  const { day, clock } = instantParts(Date.parse(at), mode);
  const weekday = new Intl.DateTimeFormat(language(), { weekday: "short", timeZone: "UTC" });
  return `${weekday.format(Date.parse(`${day}T00:00:00Z`))} ${day} ${shortClock(clock)}`;
}

/** @param {string} clock A time of day, for example `02:30:00`. */
const shortClock = (clock) => clock.replace(/:00$/, "");
