/** The list of batches. Each has its progress, its failed jobs, the work that it waits for, and the jobs that it starts at its end. */
import { get } from "../../core/api.js";
import { BatchProgress, BatchState, titleOf } from "../parts.js";
import { curl } from "../../core/curl.js";
import { t } from "../../core/i18n.js";
import { html } from "../../core/lib.js";
import { useResource } from "../../core/resource.js";
import { href } from "../../core/router.js";
import { visible } from "../../core/text.js";
import { Empty, ErrorBox, Loading, Pager } from "../../ui/controls.js";
import { FilterChoice, FilterInput } from "../../ui/filters.js";
import { Num, Time } from "../../ui/formats.js";
import { NewRows, Table, useHold, useSteadyRows } from "../../ui/tables.js";
import { One, READ } from "../one.js";
import { idOf } from "../members.js";

/** @typedef {import("../../../answers").Schemas["BatchView"]} BatchView */
/** @typedef {import("../parts.js").Batch} Batch */

const PAGE = 50;
const BATCH_STATES = ["", "open", "sealed", "complete"];

const EXAMPLE = {
  description: "Thumbnails of album 7",
  on_success: { name: "album.publish", argument: { album: 7 } },
};

/** @param {{query: Record<string, string>, go: typeof import("../../core/router.js").go, session: import("../../core/api.js").Session}} props */
export function Page({ query, go, session }) {
  return query["id"]
    ? html`<${One} key=${query["id"]} id=${query["id"]} query=${query} go=${go} session=${session} />`
    : html`<${List} query=${query} go=${go} session=${session} />`;
}

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
      <${FilterChoice}
        label=${t("job.state")} value=${state}
        options=${BATCH_STATES.map((one) => [one, t(`batches.state.${one || "all"}`)])}
        onChange=${(/** @type {string} */ one) => change({ state: one })} />
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
