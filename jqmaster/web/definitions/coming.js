/** The preview of a definition, stored or being typed: its next instants, or its effect on the newest events. */
import { Problem, call } from "../core/api.js";
import { ownText, ownZone, wallText } from "./schedules.js";
import { t } from "../core/i18n.js";
import { html, useEffect, useState } from "../core/lib.js";
import { usePref } from "../core/prefs.js";
import { visible } from "../core/text.js";

/** @typedef {import("../../answers").Schemas["PreviewedEvent"]} Event */

/** @typedef {import("../../answers").Schemas["InstantView"]} Instant */

const TYPING_MS = 300;

/**
 * @typedef {{instants: Instant[] | null, events: Event[] | null, problem: Problem | null, isOld: boolean}} Coming
 *   `isOld`: the preview is that of an earlier text.
 */

/**
 * @param {string} body The body of `POST /api/definitions/preview`, as JSON; "": there is nothing to preview.
 * @param {unknown} [of] The preview is loaded again when this value changes.
 * @returns {Coming}
 */
export function useComing(body, of = null) {
  const [state, setState] = useState(
    /** @type {{asked: string, instants: Instant[] | null, events: Event[] | null, problem: Problem | null}} */ ({
      asked: "",
      instants: null,
      events: null,
      problem: null,
    }),
  );
  const asked = JSON.stringify([body, of]);
  useEffect(() => {
    if (!body) return undefined;
    const aborter = new AbortController();
    const timer = setTimeout(
      () => {
        call("POST", "api/definitions/preview", { text: body, signal: aborter.signal }).then(
          ({ instants, events = [] }) => setState({ asked, instants, events, problem: null }),
          (error) => {
            if (error instanceof Problem) setState({ asked, instants: null, events: null, problem: error });
          },
        );
      },
      state.asked ? TYPING_MS : 0,
    );
    return () => {
      clearTimeout(timer);
      aborter.abort();
    };
  }, [asked]);
  const { asked: _, ...found } = state;
  return { ...found, isOld: state.asked !== asked };
}

/** @param {string} at @param {string} zone @returns {string} The day of an instant in a zone, such as `2026-11-23`. */
function dayIn(at, zone) {
  try {
    return new Intl.DateTimeFormat("sv-SE", { timeZone: zone }).format(Date.parse(at));
  } catch {
    // The browser does not know this time zone.
    return at.slice(0, 10);
  }
}

/** @param {Instant} instant @param {number} jitterMs @param {string} zone @returns {string} */
function noteText(instant, jitterMs, zone) {
  const notes = [];
  if (instant.clock_change) notes.push(t(`definitions.clock.${instant.clock_change}`));
  if (instant.left_out)
    notes.push(
      instant.left_out === "workday"
        ? t("definitions.left_out.workday")
        : t("definitions.left_out", { name: visible(instant.left_out) }),
    );
  if (instant.moved_from) notes.push(t("definitions.moved_from", { day: dayIn(instant.moved_from, zone) }));
  if (jitterMs > 0 && instant.note) notes.push(t("definitions.jittered"));
  return notes.join(" · ");
}

/** @param {{coming: Coming, zone: string, jitterMs?: number, label: string}} props */
export function ComingTable({ coming, zone, jitterMs = 0, label }) {
  const [mode] = usePref("times", "relative");
  const { instants, problem, isOld } = coming;
  if (problem)
    return html`<p class="muted">${problem.status === 422 ? t("definitions.next.invalid") : visible(problem.title)}</p>`;
  if (instants === null) return html`<p class="muted">${t("loading")}</p>`;
  if (instants.length === 0) return html`<p class="muted">${t("definitions.never_again")}</p>`;
  const own = mode === "utc" ? "UTC" : ownZone();
  const isElsewhere = own !== zone;
  return html`<div
      class="table-box coming" tabindex="0" role="region" aria-label=${label} aria-busy=${String(isOld)}>
      <table>
        <caption class="sr">${label}</caption>
        <thead>
          <tr>
            <th scope="col">${visible(zone)}</th>
            ${isElsewhere && html`<th scope="col">${t("definitions.your_zone", { zone: own })}</th>`}
          </tr>
        </thead>
        <tbody>
          ${instants.map((one) => {
            const note = noteText(one, jitterMs, zone);
            return html`<tr
                key=${`${one.due_at} ${one.moved_from ?? ""}`} class=${one.left_out ? "left-out" : ""}>
                <td>
                  <span class="num">${wallText(one.local)}</span>
                  ${note && html` <span class="hint-line">${note}</span>`}
                </td>
                ${isElsewhere && html`<td><span class="num">${ownText(one.due_at, mode)}</span></td>`}
              </tr>`;
          })}
        </tbody>
      </table>
    </div>`;
}
