/** Batches: how far each is, which of its jobs failed, what it waits for, and what it starts when it is over. */
import { get, may, post, toJson } from "../../core/api.js";
import {
  BatchProgress,
  BatchState,
  BatchStrip,
  BatchWhy,
  Callbacks,
  countsOf,
  shareOf,
  titleOf,
} from "../parts.js";
import { curl } from "../../core/curl.js";
import { Flow, loadFlow } from "../../jobs/flow.js";
import { number, t, tOr } from "../../core/i18n.js";
import { html, useState } from "../../core/lib.js";
import { useResource } from "../../core/live.js";
import { href } from "../../core/router.js";
import { STATES } from "../../core/states.js";
import { visible } from "../../core/text.js";
import { Button, Copy, CopyMenu, Empty, ErrorBox, Loading, Pager, Tabs } from "../../ui/controls.js";
import { ConfirmCount, toast } from "../../ui/dialogs.js";
import { FilterInput } from "../../ui/filters.js";
import { Badge, Duration, Id, Num, State, Text, Time } from "../../ui/formats.js";
import { Field } from "../../ui/forms.js";
import { NewRows, Table, useHold, useSteadyRows } from "../../ui/tables.js";
import { useTitle } from "../../ui/titles.js";

/** @typedef {import("../../core/lib.js").FieldEvent} FieldEvent */

/** @typedef {import("../../../answers").Schemas["JobSummary"]} JobSummary */
/** @typedef {import("../../../answers").Schemas["BatchView"]} BatchView */

/** @typedef {import("../parts.js").Batch} Batch */

const PAGE = 50;
const MEMBERS = 25;
const BATCH_STATES = ["", "open", "sealed", "complete"];
// A page of the API covers only a part of the members, where a rare state may be missing.
const MOST_PAGES = 10;
const EXAMPLE = {
  description: "Thumbnails of album 7",
  on_success: { name: "album.publish", argument: { album: 7 } },
};
/** Poll for changes that come without an event, such as sealing. */
/** @type {import("../../core/live.js").Reading} */
const READ = { events: ["jobs", "batches"], leastMs: 2000, everyMs: 5000, pollMs: 5000 };

/** @param {{query: Record<string, string>, go: typeof import("../../core/router.js").go, session: import("../../core/api.js").Session}} props */
export function Page({ query, go, session }) {
  return query["id"]
    ? html`<${One} key=${query["id"]} id=${query["id"]} query=${query} go=${go} session=${session} />`
    : html`<${List} query=${query} go=${go} session=${session} />`;
}

/** @param {{id: string}} one @returns {string} */
const idOf = (one) => one.id;

/** @param {{query: Record<string, string>, go: typeof import("../../core/router.js").go, session: import("../../core/api.js").Session}} props */
function List({ query, go, session }) {
  const hold = useHold();
  const state = BATCH_STATES.includes(query["state"] ?? "") ? (query["state"] ?? "") : "";
  const wanted = { q: query["q"] ?? "", tag: query["tag"] ?? "", state };
  const of = JSON.stringify([wanted, query["cursor"]]);
  const found = useResource(
    async (signal) => ({
      ...(await get("api/batches", { ...wanted, cursor: query["cursor"], limit: PAGE }, signal)),
      of,
    }),
    [of],
    READ,
  );
  const { rows, newCount, showNew } = useSteadyRows(
    found.data?.batches ?? [],
    idOf,
    hold.isHeld,
    found.data?.of ?? "",
  );
  const change = (/** @type {Record<string, string>} */ changes) =>
    go("batches", { ...wanted, ...changes }, { replace: true });
  const isFiltered = Boolean(wanted.q || wanted.tag || state);
  return html`<div class="page-head"><h1>${t("nav.batches")}</h1></div>
    <form
      class="filters is-open" role="search" aria-label=${t("filters")}
      onSubmit=${(/** @type {Event} */ e) => e.preventDefault()}>
      <${FilterInput}
        label=${t("batches.contains")} value=${wanted.q}
        onChange=${(/** @type {string} */ q) => change({ q })} />
      <${Field} label=${t("job.state")}>
        ${(/** @type {Record<string, unknown>} */ a) =>
          html`<select
              ...${a} value=${state}
              onChange=${(/** @type {FieldEvent} */ e) => change({ state: e.target.value })}>
              ${BATCH_STATES.map(
                (one) => html`<option key=${one} value=${one}>${t(`batches.state.${one || "all"}`)}</option>`,
              )}
            </select>`}
      <//>
      <${FilterInput}
        label=${t("batches.tag")} value=${wanted.tag}
        onChange=${(/** @type {string} */ tag) => change({ tag })} />
    </form>
    <${ErrorBox} problem=${found.problem} onRetry=${found.reload} />
    ${
      !found.data
        ? html`<${Loading} isLoading=${!found.problem} />`
        : html`<div ...${hold.bind}>
            <${NewRows} count=${newCount} onShow=${showNew} />
            <${Table}
              isFixed caption=${t("nav.batches")} rows=${rows} rowKey=${idOf} label=${titleOf}
              onOpen=${(/** @type {Batch} */ one) => go("batches", { id: one.id })}
              columns=${COLUMNS.map((column) => ({ ...column, label: t(column.label) }))}
              empty=${html`<div class="card">
                  <${Empty}
                    title=${t(
                      found.data.next_cursor
                        ? "jobs.empty.so_far"
                        : isFiltered
                          ? "batches.empty.filtered"
                          : "batches.empty",
                    )}
                    ...${!isFiltered && { curl: curl(session, "POST", "api/batches", { body: EXAMPLE }) }}>
                    ${isFiltered && html`<p><a href=${href("batches")}>${t("filter.clear")}</a></p>`}
                  <//>
                </div>`} />
          </div>`
    }
    <${Pager}
      hasNext=${Boolean(found.data?.next_cursor)} hasBefore=${Boolean(query["cursor"])}
      isLoading=${found.isLoading}
      onNext=${() => go("batches", { ...wanted, cursor: found.data?.next_cursor })}
      onFirst=${() => go("batches", wanted)} />`;
}

/** @type {(import("../../ui/tables.js").Column<BatchView> & {label: string})[]} */
const COLUMNS = [
  {
    key: "name",
    label: "batches.batch",
    render: (one) =>
      html`<a href=${href("batches", { id: one.id })} title=${visible(`${titleOf(one)}\n${one.id}`)}>
          ${visible(titleOf(one))}
        </a>
        ${one.batch && html` <span class="muted">${t("batches.inside")}</span>`}`,
  },
  {
    key: "condition",
    label: "job.state",
    width: 14.5,
    priority: 2,
    render: (one) => html`<${BatchState} batch=${one} />`,
  },
  {
    key: "progress",
    label: "batches.over",
    width: 16,
    render: (one) => html`<${BatchProgress} batch=${one} />`,
  },
  {
    key: "failed",
    label: "state.failed",
    align: "end",
    width: 5.5,
    render: (one) =>
      one.counts.failed
        ? html`<a class="fails" href=${href("batches", { id: one.id, state: "failed" })}><${Num} value=${one.counts.failed} /></a>`
        : html`<${Num} value=${null} />`,
  },
  {
    key: "tags",
    label: "job.tags",
    width: 10,
    priority: 4,
    render: (one) =>
      one.tags.length
        ? one.tags.map(
            (/** @type {string} */ tag) =>
              html`<a key=${tag} class="chip" href=${href("batches", { tag })}>${visible(tag)}</a> `,
          )
        : html`<${Num} value=${null} />`,
  },
  {
    key: "created",
    label: "job.created",
    width: 8,
    priority: 2,
    render: (one) => html`<${Time} at=${one.created_at} />`,
  },
  {
    key: "completed",
    label: "batches.completed",
    width: 8,
    priority: 3,
    render: (one) => html`<${Time} at=${one.completed_at} />`,
  },
];

/** @param {{id: string, query: Record<string, string>, go: typeof import("../../core/router.js").go, session: import("../../core/api.js").Session}} props */
function One({ id, query, go, session }) {
  const [dialog, setDialog] = useState("");
  const path = /** @type {const} */ (`api/batches/${encodeURIComponent(id)}`);
  const found = useResource(
    async (signal) => {
      const [batch, why, flow] = await Promise.all([
        get(path, {}, signal),
        get(`${path}/why`, {}, signal),
        loadFlow(`${path}/flow`, signal),
      ]);
      return { batch, why, flow };
    },
    [id],
    READ,
  );
  const batch = found.data?.batch;
  useTitle(batch ? `${shareOf(batch)} % · ${titleOf(batch)} · ${t("batches.batch")}` : null);
  if (!found.data || !batch) {
    if (found.problem?.status === 404)
      return html`<h1>${t("nav.batches")}</h1>
        <div class="card">
          <${Empty} title=${t("batches.unknown")}>
            <p><code>${visible(id)}</code></p><p>${t("batches.unknown.text")}</p>
            <p><a href=${href("batches")}>${t("nav.batches")}</a></p>
          <//>
        </div>`;
    return html`<h1>${t("nav.batches")}</h1><${ErrorBox} problem=${found.problem} onRetry=${found.reload} />${!found.problem && html`<${Loading} />`}`;
  }
  const { why, flow } = found.data;
  const { failed } = batch.counts;
  const mayPush = may(session, "push");
  const isCanceled = batch.canceled_at !== null;
  const retryable = failed + batch.batches.failed;
  return html`<p class="crumbs">
      <a href=${href("batches")}>${t("nav.batches")}</a>
      ${
        batch.batch &&
        html` / <a href=${href("batches", { id: batch.batch })}>…${visible(batch.batch.slice(-10))}</a>`
      }
    </p>
    <div class="page-head job-head">
      <h1><${Text} value=${titleOf(batch)} max=${120} /></h1><${BatchState} batch=${batch} />
    </div>
    <div class="row job-id">
      <code class="id">${visible(batch.id)}</code> <${CopyMenu}>
        <${Copy} text=${batch.id} label=${t("copy.id")} /> <${Copy}
          text=${() => toJson(batch, 2)} label=${t("copy.json")} />
      <//>
    </div>
    <${ErrorBox} problem=${found.problem} onRetry=${found.reload} />
    <div class="row actions" role="group" aria-label=${t("batches.actions")}>
      ${
        mayPush &&
        batch.state === "open" &&
        !isCanceled &&
        html`<${Button} opensDialog kind="primary" onClick=${() => setDialog("seal")}>${t("batches.seal")}<//>`
      }
      ${
        may(session, "operate") &&
        retryable > 0 &&
        html`<${Button} opensDialog kind=${batch.state === "open" ? "" : "primary"} onClick=${() => setDialog("retry")}>${t("batches.retry")}<//>`
      }
      ${
        mayPush &&
        batch.state !== "complete" &&
        !isCanceled &&
        html`<${Button} opensDialog kind="danger" onClick=${() => setDialog("cancel")}>${t("batches.cancel")}<//>`
      }
    </div>
    <${Progress} batch=${batch} />
    <div class="job-grid">
      <div class="stack"><${BatchWhy} batch=${batch} why=${why} /><${Callbacks} batch=${batch} /></div>
      <div class="stack"><${Facts} batch=${batch} /></div>
    </div>
    ${
      flow &&
      html`<section class="card after" aria-labelledby="flow">
          <h2 id="flow">${t("flow")}</h2>
          <${Flow} key=${id} flow=${flow} session=${session} onChange=${found.reload} />
        </section>`
    }
    <${Members} batch=${batch} query=${query} go=${go} />
    ${
      dialog &&
      html`<${Ask} key=${dialog} action=${dialog} batch=${batch} path=${path} onClose=${() => setDialog("")} onDone=${found.reload} />`
    }`;
}

/** @param {{batch: Batch}} props */
function Progress({ batch }) {
  const { total, unfinished } = batch.counts;
  const counts = countsOf(batch);
  return html`<section class="card" aria-label=${t("batches.over")}>
      <p class="batch-over">
        <b class="num">${number(shareOf(batch))} %</b> <span>
          ${t("batches.over_of", { over: total - unfinished, total })}
        </span>
        ${
          batch.batches.total > 0 &&
          html` <span class="muted">${t("batches.inside_of", { over: batch.batches.succeeded + batch.batches.failed, total: batch.batches.total })}</span>`
        }
      </p>
      <${BatchStrip} batch=${batch} />
      <ul class="batch-counts">
        ${counts.map(
          ([state, count]) =>
            html`<li key=${state}>
                ${
                  state === "unfinished"
                    ? html`<span class="muted">${t("batches.unfinished")}</span>`
                    : html`<${State} state=${state} />`
                } <b class="num">${number(count)}</b>
              </li>`,
        )}
        ${
          batch.counts.deleted > 0 &&
          html`<li><span class="muted">${t("batches.deleted")}</span> <b class="num">${number(batch.counts.deleted)}</b></li>`
        }
      </ul>
    </section>`;
}

/** @param {{batch: Batch}} props */
function Facts({ batch }) {
  const isLong = batch.description !== titleOf(batch) && batch.description !== "";
  const end = batch.completed_at ?? null;
  return html`<section class="card">
      <h2>${t("job.facts")}</h2>
      <dl class="facts">
        <dt>${t("job.created")}</dt><dd><${Time} at=${batch.created_at} /></dd>
        ${
          end &&
          html`<dt>${t("batches.completed")}</dt>
            <dd>
              <${Time} at=${end} /> <span class="muted">
                ${t("batches.after")} <${Duration} ms=${Date.parse(end) - Date.parse(batch.created_at)} />
              </span>
            </dd>`
        }
        ${
          batch.canceled_at &&
          html`<dt>${t("batches.canceled")}</dt><dd><${Time} at=${batch.canceled_at} /></dd>`
        }
        ${batch.expires_at && html`<dt>${t("job.expires")}</dt><dd><${Time} at=${batch.expires_at} /></dd>`}
        ${
          batch.batch &&
          html`<dt>${t("batches.parent")}</dt><dd><${Id} id=${batch.batch} href=${href("batches", { id: batch.batch })} /></dd>`
        }
        ${
          batch.batches.total > 0 &&
          html`<dt>${t("batches.children")}</dt>
            <dd>
              <${Num} value=${batch.batches.total} /> <span class="muted">
                ${t("batches.children.of", {
                  succeeded: batch.batches.succeeded,
                  failed: batch.batches.failed,
                })}
              </span>
            </dd>`
        }
        ${
          batch.tags.length > 0 &&
          html`<dt>${t("job.tags")}</dt>
            <dd>
              ${batch.tags.map(
                (tag) =>
                  html`<a key=${tag} class="chip" href=${href("batches", { tag })}><${Text} value=${tag} max=${64} /></a> `,
              )}
            </dd>`
        }
        ${
          isLong &&
          html`<dt>${t("batches.description")}</dt><dd><${Text} value=${batch.description} max=${500} isBlock /></dd>`
        }
      </dl>
    </section>`;
}

/**
 * Load a page of the members in one state. One call of the API covers only a part of them.
 * @param {Batch} batch
 * @param {{state: string, cursor: string | null}} query
 * @param {AbortSignal} signal
 */
async function loadMembers(batch, query, signal) {
  const path = /** @type {const} */ (`api/batches/${encodeURIComponent(batch.id)}/jobs`);
  const jobs = [];
  let cursor = query.cursor;
  for (let page = 0; page < MOST_PAGES && jobs.length < MEMBERS; page += 1) {
    /** @type {import("../../../answers").Answer<"api/batches/{batch_id}/jobs">} */
    const found = await get(path, { ...query, cursor, limit: MEMBERS - jobs.length }, signal);
    jobs.push(...found.jobs);
    cursor = found.next_cursor;
    if (cursor === null) break;
  }
  return { jobs, next_cursor: cursor };
}

/** @param {{batch: Batch, query: Record<string, string>, go: typeof import("../../core/router.js").go}} props */
function Members({ batch, query, go }) {
  const hold = useHold();
  const state = STATES[query["state"] ?? ""] ? (query["state"] ?? "") : "";
  const cursor = query["cursor"] ?? null;
  const of = JSON.stringify([batch.id, state, cursor]);
  const found = useResource(
    async (signal) => ({ ...(await loadMembers(batch, { state, cursor }, signal)), of }),
    [of],
    // A rare state of a large batch takes many reads.
    { events: ["jobs"], leastMs: state && batch.counts.total > 5000 ? 10_000 : 2000, everyMs: 10_000 },
  );
  const { rows, newCount, showNew } = useSteadyRows(
    found.data?.jobs ?? [],
    idOf,
    hold.isHeld,
    found.data?.of ?? "",
  );
  const shown = { id: batch.id, state };
  const counts = /** @type {Record<string, number | null | undefined>} */ ({ ...batch.counts });
  const states = Object.keys(STATES).filter(
    (one) => one === state || counts[one] === null || (counts[one] ?? 0) > 0,
  );
  const tabs = [
    {
      key: "",
      label: t("batches.state.all"),
      count: batch.counts.total,
      href: href("batches", { id: batch.id }),
    },
    ...states.map((one) => ({
      key: one,
      label: tOr(`state.${one}`, one),
      ...(typeof counts[one] === "number" && { count: counts[one] }),
      href: href("batches", { id: batch.id, state: one }),
    })),
  ];
  return html`<section class="after" aria-labelledby="members">
      <div class="page-head">
        <h2 id="members">${t("batches.members")}</h2>
        <a class="button small as-link" href=${href("jobs", { batch: batch.id, state })}>
          ${t("batches.members.jobs")}
        </a>
      </div>
      <${Tabs} label=${t("job.state")} tabs=${tabs} current=${state} />
      <${ErrorBox} problem=${found.problem} onRetry=${found.reload} />
      ${
        !found.data
          ? html`<${Loading} isLoading=${!found.problem} />`
          : html`<div ...${hold.bind}>
              <${NewRows} count=${newCount} onShow=${showNew} />
              <${Table}
                isFixed caption=${t("nav.jobs")} rows=${rows} rowKey=${idOf}
                label=${(/** @type {JobSummary} */ job) => job.name}
                onOpen=${(/** @type {JobSummary} */ job) => go("job", { id: job.id })}
                columns=${MEMBER_COLUMNS.map((column) => ({ ...column, label: t(column.label) }))}
                empty=${html`<div class="card"><p class="muted">${t(found.data.next_cursor ? "jobs.empty.so_far" : "batches.members.none")}</p></div>`} />
            </div>`
      }
      <${Pager}
        hasNext=${Boolean(found.data?.next_cursor)} hasBefore=${cursor !== null} isLoading=${found.isLoading}
        onNext=${() => go("batches", { ...shown, cursor: found.data?.next_cursor })}
        onFirst=${() => go("batches", shown)} />
    </section>`;
}

/** @type {(import("../../ui/tables.js").Column<JobSummary> & {label: string})[]} */
const MEMBER_COLUMNS = [
  {
    key: "state",
    label: "job.state",
    width: 9,
    phone: "line",
    render: (job) => html`<${State} state=${job.state} />`,
  },
  {
    key: "name",
    label: "job.name",
    phone: "main",
    render: (job) =>
      html`<a href=${href("job", { id: job.id })} title=${visible(job.name)}>${visible(job.name)}</a>`,
  },
  { key: "id", label: "job.id", width: 8, priority: 2, render: (job) => html`<${Id} id=${job.id} />` },
  {
    key: "cause",
    label: "batches.cause",
    width: 12,
    priority: 3,
    phone: "line",
    render: (job) =>
      job.cause ? tOr(`cause.${job.cause}`, visible(job.cause)) : html`<${Num} value=${null} />`,
  },
  {
    key: "attempt",
    label: "job.attempt",
    align: "end",
    width: 5.5,
    priority: 2,
    render: (job) => html`<${Num} value=${job.attempt} />`,
  },
  {
    key: "created",
    label: "job.created",
    width: 8,
    priority: 2,
    render: (job) => html`<${Time} at=${job.created_at} />`,
  },
  {
    key: "finished",
    label: "job.finished",
    width: 8,
    phone: "side",
    render: (job) => html`<${Time} at=${job.finished_at} />`,
  },
];

/** @param {{action: string, batch: Batch, path: string, onClose: () => void, onDone: () => Promise<void>}} props Asks before it seals, cancels or retries. */
function Ask({ action, batch, path, onClose, onDone }) {
  const { counts } = batch;
  const count = action === "retry" ? counts.failed : counts.unfinished;
  const inside = action === "seal" ? 0 : batch.batches.total;
  const confirm = async () => {
    await post(`${path}/${action}`);
    toast(t(`batches.${action}.done`));
    await onDone();
  };
  return html`<${ConfirmCount}
      title=${t(`batches.${action}.title`)} count=${count} counted=${t(`batches.${action}.count`, { count })}
      isAlways verb=${t(`batches.${action}`)} kind=${action === "cancel" ? "danger" : "primary"}
      onClose=${onClose} onConfirm=${confirm}>
      <p>${t(`batches.${action}.text`)}</p>
      ${inside > 0 && html`<p>${t("batches.also_inside", { count: inside })}</p>`}
      ${
        action === "retry" &&
        (counts.gone ?? 0) > 0 &&
        html`<p class="warning" role="note">${t("batches.retry.gone", { count: counts.gone ?? 0 })}</p>`
      }
      ${
        action === "cancel" &&
        batch.callbacks.on_complete?.state === "waiting" &&
        html`<p><${Badge} kind="info">${t("batches.on_complete")}<//> ${t("batches.cancel.cleanup", { name: visible(batch.callbacks.on_complete.name) })}</p>`
      }
    <//>`;
}
