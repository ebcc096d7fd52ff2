/** Incidents: the entries of each, the changes around it, and the people who take care of it. */
import { html, useState } from "../../core/lib.js";
import { get, may, post } from "../../core/api.js";
import { t, tOr } from "../../core/i18n.js";
import { useResource } from "../../core/resource.js";
import { href } from "../../core/router.js";
import { visible } from "../../core/text.js";
import { Button, Empty, ErrorBox, Loading } from "../../ui/controls.js";
import { FormDialog } from "../../ui/form_dialog.js";
import { Badge, Num, Text, Time, durationText, nowMs, steadyMs, useTick } from "../../ui/formats.js";
import { FormField, useForm } from "../../ui/forms.js";
import { usePageTitle } from "../../ui/titles.js";
import { entryLink, entryText, incidentTitle, markLink, markText } from "../mark_words.js";

/** @typedef {import("../../../answers").Schemas["TimelineIncidentView"]} Incident */
/** @typedef {import("../../../answers").Schemas["TimelineIncidentDetail"]} Detail */
/** @typedef {import("../mark_words.js").IncidentEntry} IncidentEntry */
/** @typedef {import("../mark_words.js").Mark} Mark */

// Poll this often, because no event announces the entries that the leader writes.
const POLL_MS = 3_000;
const DAY_MS = 86_400_000;
const AROUND_MS = 60_000;

/** @param {{query: Record<string, string>, session: import("../../core/api.js").Session}} props */
export function Page({ query, session }) {
  const id = query["id"];
  return id ? html`<${One} key=${id} id=${id} mayOperate=${may(session, "operate")} />` : html`<${All} />`;
}

function All() {
  const { data, problem, reload } = useResource((signal) => get("api/incidents", {}, signal), [], {
    events: ["masters", "workers"],
    pollMs: POLL_MS,
  });
  const marks = useResource(
    (signal) => get("api/marks", { since: new Date(nowMs() - DAY_MS).toISOString() }, signal),
    [],
    { events: ["masters", "workers", "constraints"], leastMs: 2_000, pollMs: POLL_MS },
  );
  const incidents = /** @type {Incident[]} */ (data?.incidents ?? []);
  return html`<div class="page-head"><h1>${t("nav.incidents")}</h1></div>
    <${ErrorBox} problem=${problem} onRetry=${reload} />
    ${
      data === null
        ? !problem && html`<${Loading} />`
        : incidents.length === 0
          ? html`<${Empty} title=${t("incident.none")} />`
          : html`<ol class="plain incidents" aria-label=${t("nav.incidents")}>
              ${incidents.map(
                (one) => html`<li key=${one.id} class="card">
                    <p class="row">
                      <${Condition} incident=${one} /> <a href=${href("incidents", { id: one.id })}>
                        <strong>${incidentTitle(one)}</strong>
                      </a> <span class="muted"><${Time} at=${one.began_at} isPast /></span>
                    </p>
                    <p class="muted">
                      <${Lasted} incident=${one} />
                      ${
                        one.acknowledged.length > 0 &&
                        html` ${entryText(/** @type {IncidentEntry} */ (one.acknowledged.at(-1)))}`
                      }
                    </p>
                  </li>`,
              )}
            </ol>`
    }
    <p class="muted">
      ${data?.kept_since ? html`${t("incident.kept")} <${Time} at=${data.kept_since} isPast />` : ""}
    </p>
    <section class="after" aria-labelledby="lately">
      <h2 id="lately">${t("incident.lately")}</h2>
      <${ErrorBox} problem=${marks.problem} onRetry=${marks.reload} />
      ${
        marks.data &&
        html`<${Marks}
            marks=${marks.data.marks.filter((mark) => mark.kind !== "incident").reverse()}
            isWhole=${marks.data.is_whole} none=${t("incident.lately.none")} />`
      }
    </section>`;
}

/** @param {{id: string, mayOperate: boolean}} props */
function One({ id, mayOperate }) {
  const { data, problem, reload } = useResource(
    (signal) => get(`api/incidents/${encodeURIComponent(id)}`, {}, signal),
    [id],
    { events: ["masters", "workers", "constraints"], pollMs: POLL_MS },
  );
  const [isAsking, setAsking] = useState(false);
  const one = /** @type {Detail | null} */ (data);
  const title = one ? incidentTitle(one) : t("incident.one");
  usePageTitle(title);
  if (!one)
    return html`<h1>${t("incident.one")}</h1><${ErrorBox} problem=${problem} onRetry=${reload} />
      ${!problem && html`<${Loading} />`}<p><a href=${href("incidents")}>${t("nav.incidents")}</a></p>`;
  return html`<p><a href=${href("incidents")}>← ${t("nav.incidents")}</a></p>
    <div class="page-head">
      <h1>${title}</h1> <${Condition} incident=${one} />
      ${
        mayOperate &&
        html`<${Button} opensDialog onClick=${() => setAsking(true)}>${t("incident.acknowledge")}<//>`
      }
    </div>
    <${ErrorBox} problem=${problem} onRetry=${reload} />
    <p><${Time} at=${one.began_at} isPast /> · <${Lasted} incident=${one} /></p>
    <ol class="plain">
      ${one.acknowledged.map(
        (entry) =>
          html`<li key=${entry.id}>
              <${Badge} kind="info">${t("incident.acknowledged")}<//> ${entryText(entry)} <span class="muted">
                <${Time} at=${entry.at} isPast />
              </span>
            </li>`,
      )}
    </ol>
    <section class="card" aria-labelledby="story">
      <h2 id="story">${t("incident.story")}</h2>
      <ol class="story">
        ${one.entries.map((entry) => html`<${Entry} key=${entry.id} entry=${entry} />`)}${
          one.ended_at &&
          html`<li>
              <span class="story-at"><${Time} at=${one.ended_at} isPast /></span> <strong>
                ${t("incident.clear", { duration: lastsText(one) })}
              </strong>
            </li>`
        }
      </ol>
    </section>
    <${Peaks} incident=${one} />
    <section class="after" aria-labelledby="nearby">
      <h2 id="nearby">${t("incident.nearby")}</h2>
      <${Marks} marks=${one.nearby} isWhole=${one.nearby_is_whole} none=${t("incident.nearby.none")} />
    </section>
    ${isAsking && html`<${Acknowledge} id=${id} onClose=${() => setAsking(false)} onDone=${reload} />`}`;
}

/** @param {{entry: IncidentEntry}} props */
function Entry({ entry }) {
  const about = entryLink(entry);
  return html`<li>
      <span class="story-at"><${Time} at=${entry.since} isPast /></span> <span>${entryText(entry)}</span>
      ${about && html` <a href=${about.link}>${about.act} <span aria-hidden="true">→</span></a>`}
    </li>`;
}

/** @param {{incident: Detail}} props */
function Peaks({ incident }) {
  const { peaks } = incident;
  const around = {
    finished_after: new Date(Date.parse(incident.began_at) - AROUND_MS).toISOString(),
    finished_before: new Date(Date.parse(incident.ended_at ?? "") + AROUND_MS || nowMs()).toISOString(),
  };
  return html`<section class="card after" aria-labelledby="peaks"><h2 id="peaks">${t("incident.counts")}</h2>${
    peaks
      ? html`<dl class="facts">
        <dt>${t("overview.retried")}</dt><dd><${Num} value=${peaks.retried} /></dd>
        <dt>${t("state.failed")}</dt><dd><a href=${href("jobs", { state: "failed", ...around })}><${Num} value=${peaks.failed} /></a></dd>
        <dt>${t("incident.backlog")}</dt><dd><${Num} value=${peaks.backlog} /></dd>
        <dt>${t("incident.oldest_wait")}</dt><dd>${peaks.oldest_wait_ms === null ? "–" : durationText(steadyMs(peaks.oldest_wait_ms))}</dd></dl>`
      : html`<p class="muted">${t("incident.counts.gone")}</p>`
  }</section>`;
}

/** @param {{marks: Mark[], isWhole: boolean, none: string}} props */
function Marks({ marks, isWhole, none }) {
  if (marks.length === 0) return html`<p class="muted">${none}</p>`;
  return html`<ol class="story">
      ${marks.map((mark) => {
        const link = markLink(mark);
        const text = markText(mark);
        return html`<li key=${`${mark.at} ${mark.kind} ${mark.subject}`}>
            <span class="story-at"><${Time} at=${mark.at} isPast /></span> <${Badge} kind="off">
              ${tOr(`mark.kind.${mark.kind}`, visible(mark.kind))}
            <//> ${
              link
                ? html`<a href=${link}><${Text} value=${text} max=${300} /></a>`
                : html`<${Text} value=${text} max=${300} />`
            }
          </li>`;
      })}
    </ol>
    ${
      !isWhole &&
      html`<p class="muted">${t("incident.marks.more")} <a href=${href("audit")}>${t("nav.audit")}</a></p>`
    }`;
}

/** @param {{incident: Incident}} props */
function Condition({ incident }) {
  if (incident.ended_at) return html`<${Badge} kind="ok">${t("incident.over")}<//>`;
  return html`<${Badge} kind=${incident.acknowledged.length ? "warn" : "bad"}>${t("incident.ongoing")}<//>`;
}

/** @param {{incident: Incident}} props */
function Lasted({ incident }) {
  useTick();
  return incident.ended_at
    ? t("incident.lasted", { duration: lastsText(incident) })
    : t("incident.lasts", { duration: lastsText(incident) });
}

/** @param {Incident} incident @returns {string} */
const lastsText = ({ began_at, ended_at }) =>
  durationText(steadyMs(Math.max(1000, (ended_at ? Date.parse(ended_at) : nowMs()) - Date.parse(began_at))));

/** @param {{id: string, onClose: () => void, onDone: () => Promise<void>}} props */
function Acknowledge({ id, onClose, onDone }) {
  const form = useForm(null, () => ({ note: "" }));
  const save = async (/** @type {import("../../ui/forms.js").Values} */ { note }) => {
    await post(`api/incidents/${encodeURIComponent(id)}/acknowledge`, { note });
    await onDone();
    return t("incident.acknowledge.done");
  };
  return html`<${FormDialog}
      title=${t("incident.acknowledge.title")} form=${form} onClose=${onClose} onSave=${save} isNew
      saveLabel=${t("incident.acknowledge")}>
      <p class="muted">${t("incident.acknowledge.text")}</p>
      <${FormField}
        form=${form} name="note" label=${t("incident.note")} hint=${t("incident.note.hint")} maxlength="500" />
    <//>`;
}
