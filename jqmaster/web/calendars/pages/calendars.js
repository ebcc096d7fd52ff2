/** Calendars: the days off on which definitions skip or move instants. A year of each is on one page. */
import { Problem, del, get, may, put } from "../../core/api.js";
import { CalendarEditor, Changed, pathOfCalendar } from "../editor.js";
import { Year } from "../year.js";
import { Changes } from "../../identity/changes.js";
import { curl } from "../../core/curl.js";
import { dayText } from "../../definitions/schedules.js";
import { number, t } from "../../core/i18n.js";
import { html, useState } from "../../core/lib.js";
import { useResource } from "../../core/resource.js";
import { go, href } from "../../core/router.js";
import { visible } from "../../core/text.js";
import { Absent } from "../../ui/absent.js";
import { Button, ErrorBox, Loading } from "../../ui/controls.js";
import { Dialog, toast } from "../../ui/dialogs.js";
import { Badge, Num, Time, nowMs } from "../../ui/formats.js";
import { NamedList } from "../../ui/named_list.js";
import { useTitle } from "../../ui/titles.js";

/** @typedef {import("../../../answers").Schemas["CalendarView"]} Calendar */
/** @typedef {import("../../../answers").Schemas["CalendarSummary"]} Summary */

const EXAMPLE = { country: "JP" };
/** @type {import("../../core/resource.js").Reading} */
const READ = { events: ["definitions"], leastMs: 2000, everyMs: 15_000 };
// How long before its last day a calendar is marked for renewal. The finding about it in `GET /api/health` uses the
// same time.
const RENEW_MS = 60 * 86_400_000;
const FIRST_YEAR = 1970;
const LAST_YEAR = 9998;

/** @param {{query: Record<string, string>, go: typeof import("../../core/router.js").go, session: import("../../core/api.js").Session}} props */
export function Page({ query, session }) {
  return query["name"]
    ? html`<${One}
        key=${query["name"]}
        name=${query["name"]}
        query=${query}
        session=${session}
      />`
    : html`<${List} session=${session} />`;
}

/** @param {Summary} one @returns {string} */
const sourceText = (one) =>
  one.country
    ? visible([one.country, one.subdivision].filter(Boolean).join("-"))
    : t(`calendars.source.${one.source}`);

/** @param {Summary} one @returns {boolean} */
const endsSoon = (one) =>
  one.covers_until !== null && Date.parse(`${one.covers_until}T00:00:00Z`) - nowMs() < RENEW_MS;

/** @param {{session: import("../../core/api.js").Session}} props */
function List({ session }) {
  const found = useResource((signal) => get("api/calendars", {}, signal), [], READ);
  return html`<${NamedList}
      page="calendars" session=${session} found=${found} rows=${found.data?.calendars} columns=${COLUMNS}
      example=${curl(session, "PUT", "api/calendars/japan", { body: EXAMPLE })}
      editor=${(/** @type {() => void} */ onClose, /** @type {(name: string) => void} */ onDone) =>
        html`<${CalendarEditor} calendar=${null} onClose=${onClose} onDone=${onDone} />`} />`;
}

/** @type {(import("../../ui/tables.js").Column<Summary> & {label: string})[]} */
const COLUMNS = [
  {
    key: "name",
    label: "calendars.name",
    phone: "main",
    render: (one) =>
      html`<a
        href=${href("calendars", { name: one.name })}
        title=${visible(one.name)}
        >${visible(one.name)}</a
      >`,
  },
  {
    key: "source",
    label: "calendars.source",
    phone: "line",
    render: (one) => sourceText(one),
  },
  {
    key: "weekend",
    label: "calendars.weekend",
    priority: 3,
    render: (one) => one.weekend.map((/** @type {string} */ day) => dayText(day)).join(", ") || "–",
  },
  {
    key: "holidays",
    label: "calendars.holidays",
    align: "end",
    width: 7,
    priority: 2,
    render: (one) => html`<${Num} value=${one.holiday_count} />`,
  },
  {
    key: "until",
    label: "calendars.covers_until",
    width: 11,
    phone: "side",
    render: (one) => html`<${Until} one=${one} />`,
  },
  {
    key: "users",
    label: "calendars.used_by",
    align: "end",
    width: 7.5,
    priority: 2,
    render: (one) => html`<${Num} value=${one.used_by_count} />`,
  },
];

/** @param {Summary | Calendar} one A calendar whose source lists all of its days. @returns {string} The first and the last listed day, in words. */
function listedText(one) {
  const last = "holidays" in one ? one.holidays.at(-1) : null;
  return last ? t("calendars.last_listed", { day: last.date }) : t("calendars.listed");
}

/** @param {{one: Summary | Calendar}} props The last day whose holidays are known. */
function Until({ one }) {
  if (!one.covers_until) return html`<span class="muted">${listedText(one)}</span>`;
  return endsSoon(one)
    ? html`<${Badge} kind="warn">${one.covers_until}<//>`
    : html`<span class="num">${one.covers_until}</span>`;
}

/** @param {{name: string, query: Record<string, string>, session: import("../../core/api.js").Session}} props */
function One({ name, query, session }) {
  const path = pathOfCalendar(name);
  const [dialog, setDialog] = useState(/** @type {"edit" | "renew" | "delete" | null} */ (null));
  useTitle(name);
  const found = useResource((signal) => get(path, {}, signal), [name], READ);
  const one = found.data;
  if (!one) return html`<${Absent} page="calendars" title=${t("calendars.unknown")} found=${found} />`;
  const close = () => setDialog(null);
  return html`<p class="crumbs">
      <a href=${href("calendars")}>${t("nav.calendars")}</a>
    </p>
    <div class="page-head job-head"><h1>${visible(one.name)}</h1></div>
    <${ErrorBox} problem=${found.problem} onRetry=${found.reload} />
    ${
      may(session, "operate") &&
      html`<div class="row actions" role="group" aria-label=${t("job.actions")}>
        <${Button} opensDialog kind="primary" onClick=${() => setDialog("edit")}
          >${t("calendars.edit")}<//
        >
        ${one.source !== "dates" && html`<${Button} opensDialog onClick=${() => setDialog("renew")}>${t("calendars.renew")}<//>`}
        <${Button}
          opensDialog
          kind="danger"
          onClick=${() => setDialog("delete")}
          >${t("action.delete")}<//
        >
      </div>`
    }
    ${endsSoon(one) && html`<p class="warning" role="note">${t("calendars.ends_soon", { until: one.covers_until ?? "" })}</p>`}
    <${Facts} one=${one} />
    <${Years} one=${one} asked=${query["year"]} />
    ${may(session, "operate") && html`<${Changes} name=${one.name} etag=${one.etag ?? ""} />`}
    ${dialog === "edit" && html`<${CalendarEditor} calendar=${one} onClose=${close} onDone=${found.reload} />`}
    ${dialog === "renew" && html`<${Renewal} one=${one} onClose=${close} onDone=${found.reload} />`}
    ${dialog === "delete" && html`<${Deletion} one=${one} onClose=${close} />`}`;
}

/** @param {{one: Calendar, asked: string | undefined}} props One year of the calendar, and links to the years before and after. */
function Years({ one, asked }) {
  const given = Number(asked);
  const year =
    Number.isInteger(given) && given >= FIRST_YEAR && given <= LAST_YEAR
      ? given
      : new Date(nowMs()).getUTCFullYear();
  const turn = (/** @type {number} */ by) => {
    const next = Math.min(LAST_YEAR, Math.max(FIRST_YEAR, year + by));
    go("calendars", { name: one.name, year: String(next) }, { replace: true });
  };
  return html`<div class="row year-turn">
      <${Button}
        onClick=${() => turn(-1)}
        aria-label=${t("calendars.year_before")}
        >←<//
      >
      <h2>${String(year)}</h2>
      <${Button}
        onClick=${() => turn(1)}
        aria-label=${t("calendars.year_after")}
        >→<//
      >
    </div>
    <${Year} one=${one} year=${year} />`;
}

/** @param {{one: Calendar}} props */
function Facts({ one }) {
  const weekend = one.weekend.map((/** @type {string} */ day) => dayText(day, "long")).join(", ");
  const more = one.used_by_count - one.used_by.length;
  return html`<section class="card">
      <h2>${t("calendars.facts")}</h2>
      <dl class="facts">
        <dt>${t("calendars.source")}</dt>
        <dd>
          ${t(`calendars.source.${one.source}`)}${one.country && html` · ${sourceText(one)}`}
        </dd>
        <dt>${t("calendars.weekend")}</dt>
        <dd>${weekend || "–"}</dd>
        <dt>${t("calendars.holidays")}</dt>
        <dd>${number(one.holiday_count)}</dd>
        <dt>${t("calendars.covers_until")}</dt>
        <dd><${Until} one=${one} /></dd>
        <dt>${t("calendars.used_by")}</dt>
        <dd>
          ${
            one.used_by.length === 0
              ? t("calendars.unused")
              : one.used_by.map(
                  (/** @type {string} */ user, /** @type {number} */ at) =>
                    html`${at > 0 && ", "}<a key=${user} href=${href("definitions", { name: user })}>${visible(user)}</a>`,
                )
          }
          ${more > 0 && ` +${number(more)}`}
        </dd>
        <dt>${t("constraints.changed")}</dt>
        <dd><${Time} at=${one.changed_at} /></dd>
      </dl>
    </section>`;
}

/** @param {Calendar} one @returns {object} The request that reads the calendar's source again. */
const renewalOf = (one) => ({
  ...(one.country
    ? {
        country: one.country,
        subdivision: one.subdivision,
        language: one.language,
      }
    : { ical: one.ical }),
  weekend: one.weekend,
});

/** @param {{one: Calendar, onClose: () => void, onDone: () => unknown}} props The dialog that reads the source again. It first shows the changes. */
function Renewal({ one, onClose, onDone }) {
  const path = pathOfCalendar(one.name);
  const [problem, setProblem] = useState(/** @type {Problem | null} */ (null));
  const found = useResource(() => put(path, { ...renewalOf(one), dry_run: true }), [one.etag]);
  const renew = async () => {
    try {
      await put(path, renewalOf(one), { "If-Match": `"${one.etag}"` });
      toast(t("calendars.renewed", { name: visible(one.name) }));
      await onDone();
      onClose();
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      setProblem(error);
    }
  };
  return html`<${Dialog} title=${t("calendars.renew")} onClose=${onClose}
    ><p>${t("calendars.renew.text")}</p>
    <${ErrorBox} problem=${problem ?? found.problem} />
    ${
      found.data
        ? html`<p>
              ${t("calendars.covers_until")}:
              <span class="num"
                >${found.data.covers_until ?? listedText(found.data)}</span
              >
            </p>
            <${Changed}
              found=${{ changes: found.data.changes, problem: null }}
            />`
        : !found.problem && html`<${Loading} />`
    }
    <footer>
      <${Button} autofocus onClick=${onClose}>${t("cancel")}<//
      ><${Button} kind="primary" disabled=${!found.data} onClick=${renew}
        >${t("calendars.renew")}<//
      >
    </footer><//
  >`;
}

/** @param {{one: Calendar, onClose: () => void}} props */
function Deletion({ one, onClose }) {
  const [problem, setProblem] = useState(/** @type {Problem | null} */ (null));
  const act = async () => {
    try {
      await del(pathOfCalendar(one.name));
      toast(t("calendars.deleted", { name: visible(one.name) }));
      onClose();
      go("calendars");
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      setProblem(error);
    }
  };
  return html`<${Dialog} title=${t("calendars.delete.title")} onClose=${onClose}
    ><p>${t("calendars.delete.text", { name: visible(one.name) })}</p>
    <${ErrorBox} problem=${problem} />
    <footer>
      <${Button} autofocus onClick=${onClose}>${t("cancel")}<//
      ><${Button} kind="danger" onClick=${act}>${t("action.delete")}<//>
    </footer><//
  >`;
}
