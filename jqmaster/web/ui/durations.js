/** Inputs for durations and for their ends as people write them: `45m`, `1h 30m`, `until 18:00`, `tomorrow 9:00`, `30 分`, `18時まで`. */
import { Problem } from "../core/api.js";
import { durationIn } from "../core/durations.js";
import { t } from "../core/i18n.js";
import { html } from "../core/lib.js";
import { pref } from "../core/prefs.js";
import { Field } from "./forms.js";
import { clockText, durationText, nowMs } from "./formats.js";

const MINUTE_MS = 60_000;
const SUGGESTED_MS = [15, 30, 60, 120, 240, 1440].map((minutes) => minutes * MINUTE_MS);

/**
 * @param {string} text
 * @param {number} [now] Unix ms.
 * @returns {number | null} The end in Unix ms. Null: the text is not understood, or the end has passed. A time of day
 *   means its next occurrence, in the time zone of the page.
 */
export function endOf(text, now = nowMs()) {
  const ms = durationIn(text, now, pref("times", "relative") === "utc");
  return ms === null || ms === 0 || ms === Infinity ? null : now + ms;
}

/** @param {string} field @returns {Problem} The problem to show if the text of the field is neither a duration nor an end. */
export const unreadable = (field) =>
  new Problem(422, { title: t("duration.unknown"), errors: [{ loc: [field], msg: t("duration.rule") }] });

/**
 * A field for a duration or an end, with suggestions to press. It shows the resulting time.
 * @param {{form: import("./forms.js").FormInputs, name: string, label: string, empty?: string, path?: string}} props
 *   `empty`: the text that says what an empty field means. Without it, the field is required.
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
  return html`<${Field}
      label=${label} hint=${html`<span role="status">${said}</span>`} problem=${form.problem}
      path=${path ?? name}>
      ${(/** @type {Record<string, unknown>} */ attributes) =>
        html`<input
            autocomplete="off" spellcheck=${false} maxlength="60" placeholder=${t("duration.example")}
            ...${attributes} ...${form.input(name)} />
          <div class="suggested">
            ${SUGGESTED_MS.map(
              (ms) =>
                html`<button type="button" key=${ms} class="button small" onClick=${() => form.set({ [name]: durationText(ms) })}>${durationText(ms)}</button>`,
            )}
          </div>`}
    <//>`;
}
