/** Notices, which tell people about problems. People create, change, test, mute and acknowledge them here. */
import { get, may, post } from "../../core/api.js";
import { curl } from "../../core/curl.js";
import { t, tOr } from "../../core/i18n.js";
import { html, useState } from "../../core/lib.js";
import { useResource } from "../../core/resource.js";
import { NoticeDialogs, askAboutNotice, pathOfNotice } from "../dialogs.js";
import { NoticeEditor } from "../editor.js";
import { href } from "../../core/router.js";
import { RuleText } from "../../matching/rule_builder.js";
import { visible } from "../../core/text.js";
import { Absent } from "../../ui/absent.js";
import { Button, ErrorBox } from "../../ui/controls.js";
import { attempt } from "../../ui/dialogs.js";
import { Badge, Duration, Id, Num, State, Text, Time, nowMs } from "../../ui/formats.js";
import { NamedList } from "../../ui/named_list.js";
import { useTitle } from "../../ui/titles.js";

/** @typedef {import("../../../answers").Schemas["NoticeView"]} Notice */

/** @typedef {import("../../../answers").Schemas["NoticeMessage"]} NoticeMessage */
/** @typedef {import("../../../answers").Schemas["DestinationView"]} Destination */

/** @typedef {import("../../../answers").Schemas["IncidentView"]} Incident */
/** @typedef {import("../../../answers").Schemas["NoticeLine"]} NoticeLine */

const EXAMPLE = { when: "job_failed", to: [{ mail: ["ops@shop.example"] }], threshold: 10 };
/** @type {import("../../core/resource.js").Reading} */
const READ = { events: ["jobs"], leastMs: 2000, everyMs: 5000 };

/** @param {{query: Record<string, string>, go: typeof import("../../core/router.js").go, session: import("../../core/api.js").Session}} props */
export function Page({ query, session }) {
  return html`${
    query["name"]
      ? html`<${One} key=${query["name"]} name=${query["name"]} session=${session} />`
      : html`<${List} session=${session} />`
  }<${NoticeDialogs} />`;
}

/** @param {Notice} one */
const isMuted = (one) => one.muted_until !== null && Date.parse(one.muted_until) > nowMs();

/** @param {Pick<Notice, "to">} one @returns {string} */
const toText = (one) =>
  one.to
    .map((/** @type {Destination} */ to) => (to.mail ? to.mail.join(", ") : (to.webhook ?? to.slack ?? "")))
    .join(", ");

/** @param {{session: import("../../core/api.js").Session}} props */
function List({ session }) {
  const found = useResource((signal) => get("api/notices", {}, signal), [], READ);
  return html`<${NamedList}
      page="notices" session=${session} found=${found} rows=${found.data?.notices} columns=${COLUMNS}
      example=${curl(session, "PUT", "api/notices/failures", { body: EXAMPLE })}
      editor=${(/** @type {() => void} */ onClose, /** @type {(name: string) => void} */ onDone) =>
        html`<${NoticeEditor} notice=${null} onClose=${onClose} onDone=${onDone} />`} />`;
}

/** @type {(import("../../ui/tables.js").Column<Notice> & {label: string})[]} */
const COLUMNS = [
  {
    key: "name",
    label: "notices.name",
    phone: "main",
    render: (one) =>
      html`<a href=${href("notices", { name: one.name })} title=${visible(one.name)}>${visible(one.name)}</a>`,
  },
  {
    key: "when",
    label: "notices.when",
    phone: "line",
    render: (one) => tOr(`notices.when.${one.when}`, visible(one.when)),
  },
  {
    key: "to",
    label: "notices.to",
    priority: 2,
    render: (one) => html`<${Text} value=${toText(one)} max=${120} />`,
  },
  {
    key: "state",
    label: "job.state",
    width: 9,
    phone: "side",
    render: (one) => html`<${Condition} one=${one} />`,
  },
  {
    key: "last",
    label: "notices.last_told",
    width: 8,
    priority: 2,
    render: (one) => html`<${Time} at=${one.recent[0]?.at} />`,
  },
];

/** @param {{one: Notice}} props */
function Condition({ one }) {
  if (isMuted(one)) return html`<${Badge} kind="off">${t("notices.muted")}<//>`;
  const open = one.incidents.filter((/** @type {Incident} */ incident) => !incident.is_over);
  if (open.length === 0) return html`<${Badge} kind="ok">${t("notices.quiet")}<//>`;
  const isKnown = open.every((/** @type {Incident} */ incident) => incident.acknowledged_by !== null);
  return html`<${Badge} kind=${isKnown ? "warn" : "bad"}>${t(isKnown ? "notices.acknowledged" : "notices.open")}<//>`;
}

/** @param {{name: string, session: import("../../core/api.js").Session}} props */
function One({ name, session }) {
  const path = pathOfNotice(name);
  const [isEditing, setEditing] = useState(false);
  const found = useResource((signal) => get(path, {}, signal), [name], READ);
  useTitle(name);
  const one = found.data;
  if (!one)
    return html`<${Absent} page="notices" title=${t("notices.unknown", { name: visible(name) })} found=${found} />`;
  const again = found.reload;
  const test = () =>
    attempt(() => post(`${path}/test`), t("notices.tested", { name: visible(name) })).then(again);
  const unmute = () =>
    attempt(() => post(`${path}/mute`, { until: null }), t("notices.unmuted", { name: visible(name) })).then(
      again,
    );
  return html`<p class="crumbs"><a href=${href("notices")}>${t("nav.notices")}</a></p>
    <div class="page-head job-head">
      <h1><${Text} value=${name} max=${60} /></h1><${Condition} one=${one} />
    </div>
    <${ErrorBox} problem=${found.problem} />
    ${
      may(session, "operate") &&
      html`<div class="row actions" role="group" aria-label=${t("notices.actions")}>
          <${Button} kind="primary" onClick=${test}>${t("notices.test")}<//>
          ${
            isMuted(one)
              ? html`<${Button} onClick=${unmute}>${t("notices.unmute")}<//>`
              : html`<${Button} opensDialog onClick=${() => askAboutNotice({ what: "mute", name, onDone: again })}>${t("notices.mute")}<//>`
          }
          <${Button} opensDialog onClick=${() => setEditing(true)}>${t("definitions.edit")}<//>
          <${Button}
            opensDialog kind="danger" onClick=${() => askAboutNotice({ what: "delete", name, onDone: again })}>
            ${t("action.delete")}
          <//>
        </div>`
    }
    <div class="job-grid">
      <div class="stack">
        <${Incidents} one=${one} path=${path} mayOperate=${may(session, "operate")} onDone=${again} />
        <${Messages} one=${one} />
      </div>
      <div class="stack"><${Facts} one=${one} /></div>
    </div>
    ${isEditing && html`<${NoticeEditor} notice=${one} onClose=${() => setEditing(false)} onDone=${again} />`}`;
}

/** @param {{one: Notice, path: `api/notices/${string}`, mayOperate: boolean, onDone: () => unknown}} props */
function Incidents({ one, path, mayOperate, onDone }) {
  const acknowledge = (/** @type {string} */ key) =>
    attempt(() => post(`${path}/acknowledge`, { key }), t("notices.acknowledged.done")).then(onDone);
  return html`<section class="card" aria-labelledby="incidents">
      <h2 id="incidents">${t("notices.incidents")}</h2>
      ${
        one.incidents.length === 0
          ? html`<p class="muted">${t("notices.incidents.none")}</p>`
          : html`<ol class="attempts">
              ${one.incidents.map(
                (/** @type {Incident} */ incident) => html`<li key=${incident.key} class="attempt">
                    <p class="row">
                      <strong class="num"><${Num} value=${incident.count} /></strong> ${
                        incident.key && html`<${Text} value=${incident.key} max=${100} /> `
                      }
                      <span class="muted">
                        <${Time} at=${incident.began_at} isPast /> – <${Time} at=${incident.last_at} isPast />
                      </span>
                      ${
                        incident.acknowledged_by
                          ? html`<${Badge} kind="warn">${t("notices.acknowledged_by", { who: visible(incident.acknowledged_by) })}<//>`
                          : mayOperate &&
                            html`<${Button} class="small" onClick=${() => acknowledge(incident.key)}>${t("notices.acknowledge")}<//>`
                      }
                    </p>
                    <ul class="plain">
                      ${incident.lines.map(
                        (/** @type {NoticeLine} */ line) =>
                          html`<li key=${line.text}>
                              <span class="num">${line.count} ×</span> <${Text}
                                value=${line.text} max=${300} /> ${
                                  line.job_id &&
                                  html`<${Id} id=${line.job_id} href=${href("job", { id: line.job_id })} />`
                                }
                            </li>`,
                      )}
                    </ul>
                  </li>`,
              )}
            </ol>`
      }
    </section>`;
}

/** @param {{one: Notice}} props */
function Messages({ one }) {
  const messages = [
    ...one.pending.map((/** @type {NoticeMessage} */ m) => ({ ...m, isPending: true })),
    ...one.recent.map((m) => ({ ...m, isPending: false })),
  ];
  return html`<section class="card" aria-labelledby="messages">
      <h2 id="messages">${t("notices.messages")}</h2>
      ${
        messages.length === 0
          ? html`<p class="muted">${t("notices.messages.none")}</p>`
          : html`<ul class="plain">
              ${messages.map(
                (m) =>
                  html`<li key=${m.id}>
                      <${Time} at=${m.at} isPast /> <${Badge}
                        kind=${m.kind === "test" ? "info" : m.kind === "over" ? "ok" : "bad"}>
                        ${tOr(`notices.kind.${m.kind}`, visible(m.kind))}
                      <//> ${
                        m.kind !== "test" &&
                        html`<span class="num">${t("notices.message.count", { count: m.count })}</span> `
                      }
                      ${m.key && html`<${Text} value=${m.key} max=${100} /> `}
                      ${m.isPending && html`<span class="muted">${t("notices.pending")}</span>`}
                    </li>`,
              )}
            </ul>`
      }
      <${Deliveries} tag=${`notice:${one.name}`} />
    </section>`;
}

/** @param {{tag: string}} props Whether the messages of the notice arrived. Each message was sent by a job of its own. */
function Deliveries({ tag }) {
  const { data } = useResource((signal) => get("api/jobs/count", { tag }, signal), [tag], {
    events: ["jobs"],
    leastMs: 5_000,
    everyMs: 15_000,
  });
  const counts = Object.entries(data?.states ?? {}).filter(([, { count }]) => count > 0);
  return html`<p class="row deliveries">
      <a href=${href("jobs", { tag })}>${t("notices.deliveries")}</a>
      ${counts.map(
        ([state, { count, is_exact: isExact }]) =>
          html`<a key=${state} href=${href("jobs", { tag, state })}>
              ${!isExact && "≥ "}<${Num} value=${count} /> <${State} state=${state} />
            </a>`,
      )}
    </p>`;
}

/** @param {{one: Notice}} props */
function Facts({ one }) {
  return html`<section class="card">
      <h2>${t("notices.facts")}</h2>
      <dl class="facts">
        <dt>${t("notices.when")}</dt><dd>${tOr(`notices.when.${one.when}`, visible(one.when))}</dd>
        <dt>${t("notices.threshold")}</dt><dd><${Num} value=${one.threshold} /></dd>
        <dt>${t("notices.to")}</dt>
        <dd>
          <ul class="plain">
            ${one.to.map(
              (/** @type {Destination} */ to, /** @type {number} */ n) =>
                html`<li key=${n}>
                    ${t(`notices.to.${to.mail ? "mail" : to.webhook ? "webhook" : "slack"}`)}
                    : <${Text} value=${toText({ to: [to] })} max=${300} />
                  </li>`,
            )}
          </ul>
        </dd>
        <dt>${t("notices.group_by")}</dt><dd>${t(`notices.group_by.${one.group_by}`)}</dd>
        <dt>${t("notices.at_most_every_s")}</dt><dd><${Duration} ms=${one.at_most_every_s * 1000} /></dd>
        ${
          one.muted_until &&
          html`<dt>${t("notices.muted_until")}</dt><dd><${Time} at=${one.muted_until} /></dd>`
        }
        ${
          one.description &&
          html`<dt>${t("notices.description")}</dt><dd><${Text} value=${one.description} max=${500} /></dd>`
        }
        <dt>${t("notices.changed")}</dt><dd><${Time} at=${one.changed_at} /></dd>
      </dl>
      ${one.matcher && html`<h3>${t("notices.matcher")}</h3><${RuleText} matcher=${one.matcher} />`}
    </section>`;
}
