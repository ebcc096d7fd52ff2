/** Events as they arrive: the content of each, and the jobs that it started. */
import { Problem, get, may, toJson } from "../../core/api.js";
import { curl } from "../../core/curl.js";
import { Outcome } from "../../definitions/runs.js";
import { ReplayEvent, SendEvent } from "../dialogs.js";
import { Excerpt } from "../trigger_form.js";
import { number, t } from "../../core/i18n.js";
import { html, useEffect, useState } from "../../core/lib.js";
import { useResource } from "../../core/resource.js";
import { href } from "../../core/router.js";
import { visible } from "../../core/text.js";
import { Absent } from "../../ui/absent.js";
import { Button, Copy, CopyMenu, Empty, ErrorBox, Loading, Pager } from "../../ui/controls.js";
import { FilterInput } from "../../ui/filters.js";
import { Bytes, Id, Num, State, Text, Time, bytesText } from "../../ui/formats.js";
import { NewRows, Table, useHold, useSteadyRows } from "../../ui/tables.js";
import { useTitle } from "../../ui/titles.js";
import { Value } from "../../ui/values.js";

/** @typedef {import("../../../answers").Schemas["EventView"]} Event */

const PAGE = 50;
// The value of the parameter `send` in the address that opens the dialog without a type.
const ANY = "*";
const FILTERS = ["type", "source", "definition"];
const MAX_STATES = 20;
// Maximum number of pages of the API to read. Each page covers a part of the events, and together the pages cover all
// stored events.
const MAX_PAGES = 10;
const EXAMPLE = { event_type: "order.paid", payload: { order: 17, total: 99 }, dedupe_key: "order-17-paid" };

/** @param {{query: Record<string, string>, go: typeof import("../../core/router.js").go, session: import("../../core/api.js").Session}} props */
export function Page({ query, go, session }) {
  return query["id"]
    ? html`<${OneEvent} key=${query["id"]} id=${query["id"]} session=${session} />`
    : html`<${List} query=${query} go=${go} session=${session} />`;
}

/** @param {Event} event */
const idOf = (event) => event.event_id;

/**
 * Load a page of events. One call of the API covers only a part of the events, so it may miss a rare one.
 * @param {Record<string, string | undefined>} query
 * @param {AbortSignal} signal
 */
async function load(query, signal) {
  const events = [];
  let cursor = query["cursor"] ?? null;
  for (let page = 0; page < MAX_PAGES && events.length < PAGE; page += 1) {
    /** @type {import("../../../answers").Answer<"api/events">} */
    const found = await get("api/events", { ...query, cursor, limit: PAGE - events.length }, signal);
    events.push(...found.events);
    cursor = found.next_cursor;
    if (cursor === null) break;
  }
  return { events, next_cursor: cursor };
}

/** @param {{query: Record<string, string>, go: typeof import("../../core/router.js").go, session: import("../../core/api.js").Session}} props */
function List({ query, go, session }) {
  const hold = useHold();
  const wanted = Object.fromEntries(FILTERS.flatMap((key) => (query[key] ? [[key, query[key]]] : [])));
  const { like, send, close } = useSending(query["send"], () => go("events", wanted, { replace: true }));
  const of = JSON.stringify([wanted, query["cursor"]]);
  const found = useResource(
    async (signal) => ({ ...(await load({ ...wanted, cursor: query["cursor"] }, signal)), of }),
    [of],
    {
      events: ["events"],
      leastMs: 1000,
      everyMs: 5000,
    },
  );
  const { rows, newCount, showNew } = useSteadyRows(
    found.data?.events ?? [],
    idOf,
    hold.isHeld,
    found.data?.of ?? "",
  );
  const mayPush = may(session, "push");
  const isFiltered = Object.keys(wanted).length > 0;
  const filter = (
    /** @type {string} */ key,
    /** @type {string} */ label,
    /** @type {Record<string, unknown>} */ more = {},
  ) =>
    html`<${FilterInput}
        label=${label} value=${query[key] ?? ""}
        onChange=${(/** @type {string} */ text) =>
          go("events", { ...wanted, [key]: text }, { replace: true })}
        ...${more} />`;
  return html`<div class="page-head">
      <h1>${t("nav.events")}</h1>${
        mayPush &&
        html`<${Button} opensDialog class="small" kind="primary" onClick=${() => send(null)}>${t("events.send")}<//>`
      }
    </div>
    <form
      class="filters is-open" role="search" aria-label=${t("filters")}
      onSubmit=${(/** @type {SubmitEvent} */ e) => e.preventDefault()}>
      ${filter("type", t("events.type"), { placeholder: "order.*" })}${filter("source", t("events.source"))}
      ${filter("definition", t("events.definition"))}
    </form>
    <${ErrorBox} problem=${found.problem} onRetry=${found.reload} />
    ${
      !found.data
        ? html`<${Loading} isLoading=${!found.problem} />`
        : html`<div ...${hold.bind}>
            <${NewRows} count=${newCount} onShow=${showNew} />
            <${Table}
              isFixed caption=${t("nav.events")} rows=${rows} rowKey=${idOf}
              label=${(/** @type {Event} */ event) => event.event_type}
              onOpen=${(/** @type {Event} */ event) => go("events", { id: event.event_id })}
              columns=${COLUMNS.map((column) => ({ ...column, label: t(column.label) }))}
              empty=${html`<${NoEvents} isFiltered=${isFiltered} session=${session} />`} />
          </div>`
    }
    <${Pager}
      hasNext=${Boolean(found.data?.next_cursor)} hasBefore=${Boolean(query["cursor"])}
      isLoading=${found.isLoading}
      onNext=${() => go("events", { ...wanted, cursor: found.data?.next_cursor })}
      onFirst=${() => go("events", wanted)} />
    ${like !== undefined && html`<${SendEvent} like=${like} onClose=${close} onDone=${found.reload} />`}`;
}

/**
 * The dialog that sends an event.
 * @param {string | undefined} asked The type of the event that the address asks for.
 * @param {() => void} onOpen Removes the type from the address, so that the dialog opens only once.
 */
function useSending(asked, onOpen) {
  // undefined: the dialog is closed.
  const [like, setLike] = useState(/** @type {import("../dialogs.js").Like | undefined} */ (undefined));
  useEffect(() => {
    if (!asked) return;
    onOpen();
    setLike(asked === ANY ? null : { event_type: asked });
  }, [asked]);
  return { like, send: setLike, close: () => setLike(undefined) };
}

/** @param {{isFiltered: boolean, session: import("../../core/api.js").Session}} props */
function NoEvents({ isFiltered, session }) {
  return html`<div class="card">
      <${Empty}
        title=${t(isFiltered ? "events.empty.filtered" : "events.empty")}
        ...${!isFiltered && { curl: curl(session, "POST", "api/events", { body: EXAMPLE }) }}>
        ${isFiltered && html`<p><a href=${href("events")}>${t("filter.clear")}</a></p>`}
      <//>
    </div>`;
}

/** @type {(import("../../ui/tables.js").Column<Event> & {label: string})[]} */
const COLUMNS = [
  {
    key: "received",
    label: "events.received",
    width: 8,
    phone: "side",
    render: (event) => html`<${Time} at=${event.received_at} />`,
  },
  {
    key: "type",
    label: "events.type",
    phone: "main",
    render: (event) =>
      html`<a href=${href("events", { id: event.event_id })} title=${visible(event.event_type)}>${visible(event.event_type)}</a>`,
  },
  {
    key: "about",
    label: "events.source",
    priority: 3,
    render: (event) => {
      const text = visible([event.source, event.subject].filter(Boolean).join(" · "));
      return text ? html`<span title=${text}>${text}</span>` : html`<${Num} value=${null} />`;
    },
  },
  {
    key: "payload",
    label: "events.payload",
    priority: 2,
    render: (event) => html`<${Excerpt} value=${event.payload} isHidden=${event.payload_hidden} />`,
  },
  {
    key: "started",
    label: "events.started",
    phone: "line",
    render: (event) => html`<${Effects} runs=${event.runs} />`,
  },
];

/** @param {{runs: Event["runs"]}} props The effects of an event, in one line. */
function Effects({ runs }) {
  const [first] = runs;
  if (!first) return html`<span class="muted">${t("events.started.nothing")}</span>`;
  return html`<${Outcome} run=${{ ...first, reason: null }} /> <a
      href=${href("definitions", { name: first.definition })} title=${visible(first.definition)}>
      ${visible(first.definition)}
    </a>
    ${
      runs.length > 1 &&
      html` <span class="muted">${t("events.started.more", { count: runs.length - 1 })}</span>`
    }`;
}

/** @param {string} id @param {AbortSignal} signal @returns {Promise<string | null>} The state of a job; null if the job does not exist. */
const stateOf = (id, signal) =>
  get(`api/jobs/${encodeURIComponent(id)}`, {}, signal).then(
    (job) => job.state,
    (error) => {
      if (error instanceof Problem && error.status === 404) return null;
      throw error;
    },
  );

/** @param {{id: string, session: import("../../core/api.js").Session}} props */
function OneEvent({ id, session }) {
  const [dialog, setDialog] = useState("");
  const path = /** @type {const} */ (`api/events/${encodeURIComponent(id)}`);
  const found = useResource(
    async (signal) => {
      const event = await get(path, {}, signal);
      const ids = event.runs.flatMap((run) => run.job_id ?? []).slice(0, MAX_STATES);
      const states = await Promise.all(ids.map((job) => stateOf(job, signal)));
      return { event, states: new Map(ids.map((job, at) => [job, states[at]])) };
    },
    [id],
    { events: ["jobs"], leastMs: 2000, everyMs: 5000 },
  );
  useTitle(found.data?.event.event_type ?? null);
  if (!found.data)
    return html`<${Absent} page="events" title=${t("events.unknown")} found=${found}>
      <p>${t("events.unknown.text")}</p><//>`;
  const { event, states } = found.data;
  const isWhole = !event.payload_hidden && !event.payload_redacted && !isCut(event);
  const body = () => ({
    event_type: event.event_type,
    payload: event.payload,
    source: event.source,
    subject: event.subject,
  });
  return html`<p class="crumbs">
      <a href=${href("events")}>${t("nav.events")}</a> / <a
        href=${href("events", { type: event.event_type })}>
        ${visible(event.event_type)}
      </a>
    </p>
    <div class="page-head job-head"><h1><${Text} value=${event.event_type} max=${200} /></h1></div>
    <div class="row job-id">
      <code class="id">${visible(event.event_id)}</code> <${CopyMenu}>
        <${Copy} text=${event.event_id} label=${t("copy.id")} /> <${Copy}
          text=${() => toJson(event, 2)} label=${t("copy.json")} />
        ${
          isWhole &&
          html` <${Copy} text=${() => curl(session, "POST", "api/events", { body: body() })} label=${t("copy.curl")} />`
        }
      <//>
    </div>
    <${ErrorBox} problem=${found.problem} onRetry=${found.reload} />
    <div class="row actions" role="group" aria-label=${t("job.actions")}>
      ${
        may(session, "operate") &&
        html`<${Button} opensDialog kind="primary" onClick=${() => setDialog("replay")}>${t("events.replay")}<//>`
      }
      ${
        may(session, "push") &&
        isWhole &&
        html`<${Button} opensDialog onClick=${() => setDialog("send")}>${t("events.send_like")}<//>`
      }
    </div>
    <div class="job-grid">
      <div class="stack"><${Facts} event=${event} /><${Effect} event=${event} states=${states} /></div>
      <${Payload} event=${event} />
    </div>
    ${dialog === "replay" && html`<${ReplayEvent} event=${event} onClose=${() => setDialog("")} />`}
    ${dialog === "send" && html`<${SendEvent} like=${event} onClose=${() => setDialog("")} />`}`;
}

/** @param {Event} event @returns {boolean} Whether its payload is too large to be shown. */
const isCut = (event) => event.payload === null && event.payload_bytes > 1;

/** @param {{event: Event}} props */
function Facts({ event }) {
  return html`<section class="card">
      <h2>${t("events.facts")}</h2>
      <dl class="facts">
        <dt>${t("events.received")}</dt><dd><${Time} at=${event.received_at} /></dd>
        ${
          event.occurred_at &&
          html`<dt>${t("events.occurred_at")}</dt><dd><${Time} at=${event.occurred_at} /></dd>`
        }
        ${
          event.source &&
          html`<dt>${t("events.source")}</dt><dd><a href=${href("events", { source: event.source })}><${Text} value=${event.source} max=${200} /></a></dd>`
        }
        ${
          event.subject &&
          html`<dt>${t("events.subject")}</dt><dd><${Text} value=${event.subject} max=${200} /></dd>`
        }
        ${
          event.dedupe_key &&
          html`<dt>${t("events.dedupe_key")}</dt><dd><${Text} value=${event.dedupe_key} max=${200} /></dd>`
        }
        ${
          event.replay_of &&
          html`<dt>${t("events.replay_of")}</dt><dd><${Id} id=${event.replay_of} href=${href("events", { id: event.replay_of })} /></dd>`
        }
      </dl>
    </section>`;
}

/** @param {{event: Event, states: Map<string, string | null | undefined>}} props */
function Effect({ event, states }) {
  const count = event.job_ids.length;
  return html`<section class="card">
      <h2>${t("events.started")} <span class="muted num">${number(count)}</span></h2>${
        event.runs.length === 0
          ? html`<p class="muted">${t("events.started.none")}</p>`
          : html`<ul class="plain effects">
              ${event.runs.map(
                (run) =>
                  html`<li key=${run.definition}>
                      <a href=${href("definitions", { name: run.definition })}>
                        ${visible(run.definition)}
                      </a> <${Outcome} run=${run} />
                      ${
                        run.job_id &&
                        html` <${Id} id=${run.job_id} href=${href("job", { id: run.job_id })} /> <${JobState} run=${run} state=${states.get(run.job_id)} />`
                      }
                    </li>`,
              )}
            </ul>`
      }
    </section>`;
}

/** @param {{run: Event["runs"][number], state: string | null | undefined}} props `state` undefined: the page has not loaded it. */
function JobState({ run, state }) {
  if (state === undefined) return null;
  if (state) return html`<${State} state=${state} />`;
  return html`<span class="muted">${t(run.outcome === "waiting" ? "events.job_later" : "definitions.job_gone")}</span>`;
}

/** @param {{event: Event}} props */
function Payload({ event }) {
  return html`<section class="card"><h2>${t("events.payload")} <span class="muted small"><${Bytes} value=${event.payload_bytes} /></span></h2>${
    event.payload_hidden
      ? html`<p class="muted">${t("job.hidden")}</p>`
      : isCut(event)
        ? html`<p class="muted">${t("job.too_large", { size: bytesText(event.payload_bytes) })}</p>`
        : html`${event.payload_redacted && html`<p class="muted">${t("job.redacted")}</p>`}<${Value} value=${event.payload} label=${t("events.payload")} />`
  }</section>`;
}
