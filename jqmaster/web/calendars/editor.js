/** The form of a calendar: a country, a list of days or an iCalendar text, with a preview of the changes. */
import { Problem, get, put } from "../core/api.js";
import { DAYS, dayText } from "../definitions/schedules.js";
import { t } from "../core/i18n.js";
import { html, useEffect, useState } from "../core/lib.js";
import { visible } from "../core/text.js";
import { ErrorBox } from "../ui/controls.js";
import { FormDialog } from "../ui/form_dialog.js";
import { FormCheck, FormField, useForm } from "../ui/forms.js";

/** @typedef {import("../core/lib.js").FieldEvent} FieldEvent */

/** @typedef {import("../../answers").Schemas["CalendarView"]} Calendar */
/** @typedef {{changes: import("../../answers").Schemas["CalendarChanges"] | null, problem: Problem | null}} Found */

/** @typedef {import("../ui/forms.js").Values} Values */

const SOURCES = ["country", "dates", "ical"];
const USUAL = ["sat", "sun"];
const TYPING_MS = 600;
const SHOWN = 20;
const LINE = /^(\d{4}-\d{2}-\d{2})\s+(\S.*)$/;

/** @param {string} name */
export const pathOfCalendar = (name) => /** @type {const} */ (`api/calendars/${encodeURIComponent(name)}`);

/** @param {Calendar | null} one null: a new calendar. @returns {Values} */
const valuesOf = (one) => ({
  name: one?.name ?? "",
  source: one?.source ?? "country",
  country: one?.country ?? "",
  subdivision: one?.subdivision ?? "",
  language: one?.language ?? "",
  dates: (one?.dates ?? []).map((day) => `${day.date} ${day.name}`).join("\n"),
  ical: one?.ical ?? "",
  own_weekend: one ? "yes" : "",
  ...Object.fromEntries(DAYS.map((day) => [day, (one?.weekend ?? USUAL).includes(day) ? "yes" : ""])),
});

/** @param {Values} values @returns {object} The body of the request. */
export function calendarIn(values) {
  const weekend = values["own_weekend"] ? { weekend: DAYS.filter((day) => values[day]) } : {};
  const text = (/** @type {string} */ name) => (values[name] ?? "").trim();
  if (values["source"] === "ical") return { ical: values["ical"] ?? "", ...weekend };
  if (values["source"] === "dates") {
    const lines = text("dates").split("\n");
    return { dates: lines.filter((line) => line.trim()).map(dayIn), ...weekend };
  }
  return {
    country: text("country").toUpperCase(),
    subdivision: text("subdivision") || null,
    language: text("language") || null,
    ...weekend,
  };
}

/** @param {string} line @param {number} at */
function dayIn(line, at) {
  const [, date = "", name = ""] = LINE.exec(line.trim()) ?? [];
  if (date) return { date, name: name.trim() };
  const msg = t("calendars.dates.bad", { line: at + 1 });
  throw new Problem(422, { title: msg, errors: [{ loc: ["dates"], msg }] });
}

/** @param {string} name The name of a part of the form. */
const labelOf = (name) => (DAYS.includes(name) ? dayText(name, "long") : t(`calendars.form.${name}`));

/** @param {{calendar: Calendar | null, onClose: () => void, onDone: (name: string) => unknown}} props `calendar` null: a new calendar. */
export function CalendarEditor({ calendar, onClose, onDone }) {
  const form = useForm(calendar, valuesOf);
  const { values } = form;
  const changes = useChanges(calendar?.name ?? "", values, calendar !== null && form.changed.length > 0);
  const save = async (/** @type {Values} */ given, /** @type {Calendar | null} */ base) => {
    const name = calendar ? calendar.name : (given["name"] ?? "").trim();
    if (!name) {
      const msg = t("constraints.name.none");
      throw new Problem(422, { title: msg, errors: [{ loc: ["name"], msg }] });
    }
    await put(pathOfCalendar(name), calendarIn(given), {
      ...(base ? { "If-Match": `"${base.etag}"` } : { "If-None-Match": "*" }),
    });
    await onDone(name);
    return t("calendars.saved", { name: visible(name) });
  };
  return html`<${FormDialog}
      isWide title=${calendar ? `${t("calendars.edit")} · ${visible(calendar.name)}` : t("calendars.make")}
      form=${form} onClose=${onClose} onSave=${save} isNew=${!calendar}
      reread=${calendar ? () => get(pathOfCalendar(calendar.name)) : undefined} labelOf=${labelOf}>
      <${SourceFields} form=${form} isNew=${!calendar} />
      <${Weekend} form=${form} />
      ${
        changes &&
        html`<section class="preview" aria-live="polite"><h3>${t("calendars.changes")}</h3><${Changed} found=${changes} /></section>`
      }
    <//>`;
}

/** @param {{form: import("../ui/forms.js").FormInputs, isNew: boolean}} props The fields for the source of the days. */
function SourceFields({ form, isNew }) {
  const source = form.values["source"];
  const field = (/** @type {string} */ name, /** @type {Record<string, unknown>} */ more = {}) =>
    html`<${FormField} key=${name} form=${form} name=${name} path=${name} problem=${form.problem} label=${labelOf(name)} ...${more} />`;
  const readFile = async (/** @type {FieldEvent} */ event) => {
    const file = event.target.files?.[0];
    if (file) form.set({ ical: await file.text() });
  };
  return html`<div class="form-grid">
      ${
        isNew &&
        field("name", {
          hint: t("constraints.name.rule"),
          maxlength: "100",
          required: true,
          autocapitalize: "none",
          spellcheck: false,
        })
      }
      ${field("source", {
        as: "select",
        children: SOURCES.map(
          (one) => html`<option key=${one} value=${one}>${t(`calendars.source.${one}`)}</option>`,
        ),
      })}
    </div>
    ${
      source === "country" &&
      html`<div class="form-grid">${field("country", { hint: t("calendars.country.hint"), maxlength: "10", autocapitalize: "characters", spellcheck: false })}
      ${field("subdivision", { hint: t("calendars.subdivision.hint"), maxlength: "50", spellcheck: false })}
      ${field("language", { hint: t("calendars.language.hint"), maxlength: "20", spellcheck: false })}</div>`
    }
    ${
      source === "dates" &&
      field("dates", { as: "textarea", rows: "10", hint: t("calendars.dates.hint"), spellcheck: false })
    }
    ${
      source === "ical" &&
      html`<p><label>${t("calendars.ical.file")} <input type="file" accept=".ics,text/calendar" onChange=${readFile} /></label></p>
      ${field("ical", { as: "textarea", rows: "8", hint: t("calendars.ical.hint"), spellcheck: false })}`
    }`;
}

/** @param {{form: import("../ui/forms.js").FormInputs}} props */
function Weekend({ form }) {
  return html`<${FormCheck} form=${form} name="own_weekend"><span>${labelOf("own_weekend")}</span><//>
    ${
      form.values["own_weekend"] === "yes" &&
      html`<fieldset class="plain-set">
          <legend>${t("calendars.weekend")}</legend>
          <div class="row">
            ${DAYS.map(
              (day) =>
                html`<${FormCheck} key=${day} form=${form} name=${day}><span>${dayText(day)}</span><//>`,
            )}
          </div>
        </fieldset>`
    }`;
}

/**
 * @param {string} name @param {Values} values @param {boolean} isAsked
 * @returns {Found | null} The changes if the form is saved; null if the preview is not shown.
 */
function useChanges(name, values, isAsked) {
  const [found, setFound] = useState(/** @type {Found | null} */ (null));
  const asked = isAsked ? JSON.stringify(values) : "";
  useEffect(() => {
    if (!asked) {
      setFound(null);
      return undefined;
    }
    let isOver = false;
    const timer = setTimeout(async () => {
      try {
        const { changes } = await put(pathOfCalendar(name), { ...calendarIn(values), dry_run: true });
        if (!isOver) setFound({ changes, problem: null });
      } catch (error) {
        if (!(error instanceof Problem)) throw error;
        if (!isOver) setFound({ changes: null, problem: error });
      }
    }, TYPING_MS);
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [asked]);
  return found;
}

/** @param {{found: Found}} props The holidays that saving would add, remove or rename. */
export function Changed({ found }) {
  const { changes, problem } = found;
  if (problem) return html`<${ErrorBox} problem=${problem} />`;
  const lines = [
    ...(changes?.added ?? []).map((one) => [one.date, "+", one.name]),
    ...(changes?.removed ?? []).map((one) => [one.date, "−", one.name]),
    ...(changes?.renamed ?? []).map((one) => [one.date, "~", `${one.old_name} → ${one.name}`]),
  ].sort();
  if (lines.length === 0) return html`<p class="muted">${t("calendars.changes.none")}</p>`;
  const more = lines.length - SHOWN;
  return html`<ul class="holidays">
      ${lines
        .slice(0, SHOWN)
        .map(
          ([date, sign, name]) =>
            html`<li key=${`${date} ${sign}`}><span class="num">${sign} ${date}</span> ${visible(name ?? "")}</li>`,
        )}
    </ul>
    ${more > 0 && html`<p class="muted">${t("calendars.changes.more", { count: more })}</p>`}`;
}
