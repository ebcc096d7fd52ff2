/** A year of a calendar on one page: its months with holidays and weekends, and the names of the holidays. */
import { language, number, t } from "../core/i18n.js";
import { html } from "../core/lib.js";
import { dayText, DAYS } from "../definitions/schedules.js";
import { visible } from "../core/text.js";

/** @typedef {import("../../answers").Schemas["HolidayView"]} Holiday */
/** @typedef {import("../../answers").Schemas["CalendarView"]} Calendar */

const DAY_MS = 86_400_000;
const WEEK = 7;
const MONTHS = Array.from({ length: 12 }, (_, at) => at);

/** @param {number} year @param {number} month 0 is January. @param {number} day */
const isoDay = (year, month, day) => new Date(Date.UTC(year, month, day)).toISOString().slice(0, 10);

/** @param {string} day A day, for example `2026-11-23`. @returns {string} The day with its day of the week, in the reader's language. */
export const holidayText = (day) =>
  new Intl.DateTimeFormat(language(), {
    month: "long",
    day: "numeric",
    weekday: "short",
    timeZone: "UTC",
  }).format(Date.parse(`${day}T00:00:00Z`));

/** @param {number} year @param {number} month */
const monthText = (year, month) =>
  new Intl.DateTimeFormat(language(), {
    month: "long",
    timeZone: "UTC",
  }).format(Date.UTC(year, month, 1));

/** @param {{one: Calendar, year: number}} props `one`: the calendar as the API shows it. */
export function Year({ one, year }) {
  const prefix = `${String(year).padStart(4, "0")}-`;
  /** @type {{date: string, name: string}[]} */
  const holidays = one.holidays.filter((/** @type {Holiday} */ day) => day.date.startsWith(prefix));
  const names = new Map(holidays.map((day) => [day.date, day.name]));
  return html`<div
      class="calendar-year"
      role="group"
      aria-label=${t("calendars.year_of", { year: String(year) })}
    >
      ${MONTHS.map((month) => html`<${Month} key=${month} year=${year} month=${month} names=${names} weekend=${one.weekend} />`)}
    </div>
    <section class="card after" aria-labelledby="holidays">
      <h2 id="holidays">
        ${t("calendars.holidays_of", { year: String(year), count: number(holidays.length) })}
      </h2>
      ${
        holidays.length === 0
          ? html`<p class="muted">${t("calendars.no_holidays")}</p>`
          : html`<ul class="holidays">
              ${holidays.map((day) => html`<li key=${day.date}><span class="num">${holidayText(day.date)}</span> ${visible(day.name)}</li>`)}
            </ul>`
      }
    </section>`;
}

/** @param {{year: number, month: number, names: Map<string, string>, weekend: string[]}} props */
function Month({ year, month, names, weekend }) {
  const start = new Date(Date.UTC(year, month, 1));
  const length = Math.round((Date.UTC(year, month + 1, 1) - start.getTime()) / DAY_MS);
  // The number of empty cells before the first day: a week begins on Monday.
  const before = (start.getUTCDay() + WEEK - 1) % WEEK;
  const weeks = Array.from({ length: Math.ceil((before + length) / WEEK) }, (_, week) =>
    Array.from({ length: WEEK }, (__, at) => week * WEEK + at - before + 1),
  );
  return html`<table class="month">
      <caption>
        ${monthText(year, month)}
      </caption>
      <thead>
        <tr>
          ${DAYS.map(
            (day) =>
              html`<th key=${day} scope="col" class=${weekend.includes(day) ? "off" : ""}>${dayText(day)}</th>`,
          )}
        </tr>
      </thead>
      <tbody>
        ${weeks.map(
          (days, week) =>
            html`<tr key=${week}>
                ${days.map(
                  (day, at) =>
                    html`<${Day}
                        key=${at} day=${day >= 1 && day <= length ? day : 0}
                        name=${names.get(isoDay(year, month, day))} isOff=${weekend.includes(DAYS[at] ?? "")} />`,
                )}
              </tr>`,
        )}
      </tbody>
    </table>`;
}

/** @param {{day: number, name: string | undefined, isOff: boolean}} props `day` 0: an empty cell, for a day of another month. */
function Day({ day, name, isOff }) {
  if (!day) return html`<td></td>`;
  const kind = name ? "holiday" : isOff ? "off" : "";
  return html`<td class=${kind} title=${name && visible(name)}>
    ${number(day)}${name && html`<span class="sr"> ${visible(name)}</span>`}
  </td>`;
}
