/** The workers, alone or in groups: their jobs, rates and failures, and the reasons why they get no jobs. */
import { html, useState } from "../../core/lib.js";
import { get, may } from "../../core/api.js";
import { t } from "../../core/i18n.js";
import { useResource } from "../../core/resource.js";
import { href } from "../../core/router.js";
import { visible } from "../../core/text.js";
import { DrainCountdown, DrainDialog } from "../drains.js";
import { SlotRules, SlotsDialog } from "../slots.js";
import { Marks, figureColumns, sortedByFigures } from "../figures.js";
import { Button, Empty, ErrorBox, Loading, Tabs } from "../../ui/controls.js";
import { Text, Time } from "../../ui/formats.js";
import { Icon } from "../../ui/icons.js";
import { NewRows, Table, useHold, useSteadyRows } from "../../ui/tables.js";
import { Breaker, ORDER, POLL_MS, RowState, Slots, nameOf } from "../states.js";
import { Groups } from "../groups.js";
import { One } from "../one.js";

/** @typedef {import("../../../answers").Schemas["WorkerList"]} WorkerList */
/** @typedef {import("../../../answers").Schemas["WorkerView"]} WorkerView */
/**
 * @typedef {((selection: import("../drains.js").Selection, what: string) => void) | null} OnDrain
 *   Null: the reader may not drain.
 */

const STATES = ["fresh", "stale", "draining", "detached"];

/** @param {{query: Record<string, string>, go: typeof import("../../core/router.js").go, session: import("../../core/api.js").Session}} props */
export function Page({ query, go, session }) {
  const id = query["id"];
  return id
    ? html`<${One} id=${id} session=${session} />`
    : html`<${All} query=${query} go=${go} session=${session} />`;
}

/**
 * @type {Record<string, {label: string, of: (worker: WorkerView, value: string) => boolean}>}
 *   The filters that the address can set for the list.
 */
const FILTERS = {
  name: { label: "job.name", of: (worker, value) => worker.names.includes(value) },
  node: { label: "workers.host", of: (worker, value) => worker.node_id === value },
  version: { label: "workers.version", of: (worker, value) => worker.version === value },
  label: {
    label: "workers.label",
    of: (worker, value) => Object.entries(worker.labels).some(([key, text]) => `${key}=${text}` === value),
  },
};

const GROUPS = ["node", "version", "label"];

/** @param {{query: Record<string, string>}} props */
function GroupBy({ query }) {
  const current = GROUPS.includes(query["by"] ?? "") ? query["by"] : "";
  return html`<nav class="row group-by" aria-label=${t("workers.group_by")}>
      <span class="muted">${t("workers.group_by")}</span>
      ${["", ...GROUPS].map(
        (by) =>
          html`<a
              class="chip-link" href=${href("workers", { by })}
              aria-current=${by === current ? "page" : undefined}>
              ${t(`workers.group.${by || "worker"}`)}
            </a>`,
      )}
    </nav>`;
}

/** @param {{query: Record<string, string>, go: typeof import("../../core/router.js").go, session: import("../../core/api.js").Session}} props */
function All({ query, go, session }) {
  const by = query["by"] ?? "";
  const mayOperate = may(session, "operate");
  const [asked, setAsked] = useState(
    /** @type {{selection: import("../drains.js").Selection, what: string} | null} */ (null),
  );
  const [resized, setResized] = useState(/** @type {WorkerView | null} */ (null));
  const list = useResource((signal) => get("api/workers", {}, signal), [], {
    events: ["workers"],
    leastMs: 1000,
    pollMs: POLL_MS,
  });
  const onDrain = mayOperate
    ? (/** @type {import("../drains.js").Selection} */ selection, /** @type {string} */ what) =>
        setAsked({ selection, what })
    : null;
  return html`<div class="page-head"><h1>${t("nav.workers")}</h1></div>
    <${DrainCountdown} workers=${list.data?.workers ?? []} mayOperate=${mayOperate} onDone=${list.reload} />
    <${GroupBy} query=${query} />
    ${
      GROUPS.includes(by)
        ? html`<${Groups} key=${by} by=${by} query=${query} go=${go} onDrain=${onDrain} />`
        : html`<${List} list=${list} query=${query} go=${go} onDrain=${onDrain} onSlots=${mayOperate ? setResized : null} />`
    }
    <p class="muted after">
      ${t("workers.figures.text")} ${t("workers.mark.slow.rule")} ${t("workers.mark.failing.rule")}
    </p>
    <${SlotRules} mayOperate=${mayOperate} />
    ${asked && html`<${DrainDialog} ...${asked} onClose=${() => setAsked(null)} onDone=${list.reload} />`}
    ${
      resized &&
      html`<${SlotsDialog} worker=${resized} what=${nameOf(resized)} onClose=${() => setResized(null)} onDone=${list.reload} />`
    }`;
}

/** @param {WorkerList | null} answer @returns {WorkerView[]} The workers, without those that are part of a master and need no attention. */
const ownOf = (answer) => (answer?.workers ?? []).filter((worker) => !worker.built_in);

/**
 * @param {{list: {data: WorkerList | null, problem: import("../../core/api.js").Problem | null, reload: () =>
 *   unknown}, query: Record<string, string>, go: typeof import("../../core/router.js").go, onDrain: OnDrain, onSlots:
 *   ((worker: WorkerView) => void) | null}} props
 */
function List({ list: { data, problem, reload }, query, go, onDrain, onSlots }) {
  const hold = useHold();
  const [selected, setSelected] = useState(/** @type {Set<string>} */ (new Set()));
  const state = STATES.find((one) => one === query["state"]) ?? "";
  const sort = query["sort"] ?? "";
  const filters = Object.fromEntries(Object.entries(query).filter(([key, value]) => key in FILTERS && value));
  const all = ownOf(data);
  const chosen = all.filter((worker) =>
    Object.entries(filters).every(([key, value]) => FILTERS[key]?.of(worker, value)),
  );
  const wanted = sortedByFigures(
    chosen.filter((worker) => !state || worker.state === state).sort(byState),
    sort,
  );
  const steady = useSteadyRows(
    wanted,
    (worker) => worker.id,
    hold.isHeld,
    JSON.stringify([state, filters, sort, data === null]),
  );
  const isFiltered = Object.keys(filters).length > 0;
  const onSort = (/** @type {string} */ next) =>
    go("workers", { ...query, sort: next === sort ? "" : next }, { replace: true });
  return html`${isFiltered && html`<${Chips} filters=${filters} state=${state} />`}
    <${Tabs} label=${t("nav.workers")} tabs=${tabsOf(chosen, filters)} current=${state} />
    <${ErrorBox} problem=${problem} onRetry=${reload} />
    ${
      onDrain &&
      data !== null &&
      html`<${DrainChosen}
          chosen=${wanted.filter((worker) => selected.has(worker.id))}
          all=${isFiltered ? wanted : []} filters=${filters} onDrain=${onDrain} />`
    }
    ${
      data === null
        ? !problem && html`<${Loading} />`
        : html`<div ...${hold.bind}>
            <${NewRows} count=${steady.newCount} onShow=${steady.showNew} />
            <${Table}
              isFixed caption=${t("nav.workers")} rows=${steady.rows}
              rowKey=${(/** @type {WorkerView} */ worker) => worker.id} label=${nameOf} selected=${selected}
              onSelect=${onDrain ? setSelected : undefined}
              onOpen=${(/** @type {WorkerView} */ worker) => go("workers", { id: worker.id })} sort=${sort}
              onSort=${onSort} empty=${html`<${NoWorkers} isFiltered=${all.length > 0} />`}
              columns=${columnsOf(onSlots)} />
          </div>`
    }`;
}

/** @param {WorkerView} a @param {WorkerView} b */
const byState = (a, b) =>
  ORDER.indexOf(a.state) - ORDER.indexOf(b.state) ||
  a.node_id.localeCompare(b.node_id) ||
  a.id.localeCompare(b.id);

/** @param {WorkerView[]} workers @param {Record<string, string>} filters @returns {import("../../ui/controls.js").Tab[]} */
const tabsOf = (workers, filters) =>
  ["", ...STATES].map((one) => ({
    key: one,
    label: one ? t(`worker.${one}`) : t("jobs.all"),
    href: href("workers", { ...filters, state: one }),
    count: workers.filter((worker) => !one || worker.state === one).length,
    ...(["stale", "detached"].includes(one) &&
      workers.some((worker) => worker.state === one) && { kind: "bad" }),
  }));

/** @param {{filters: Record<string, string>, state: string}} props */
function Chips({ filters, state }) {
  return html`<p class="chips">
      ${Object.entries(filters).map(
        ([key, value]) =>
          html`<span class="chip" key=${key}>
              ${t(FILTERS[key]?.label ?? key)}
              : <${Text} value=${value} max=${80} /> <a
                href=${href("workers", { ...filters, state, [key]: "" })}
                aria-label=${t("filter.remove", { name: t(FILTERS[key]?.label ?? key) })}>
                ✕
              </a>
            </span>`,
      )}
    </p>`;
}

/** @param {{isFiltered: boolean}} props */
function NoWorkers({ isFiltered }) {
  return html`<${Empty}
      title=${isFiltered ? t("workers.none_such") : t("workers.none")}
      curl=${isFiltered ? undefined : "jqmaster worker tasks:worker"}>
      ${isFiltered ? html`<a href=${href("workers")}>${t("filter.clear")}</a>` : t("workers.none.text")}
    <//>`;
}

/** @param {((worker: WorkerView) => void) | null} onSlots @returns {import("../../ui/tables.js").Column<WorkerView>[]} */
const columnsOf = (onSlots) => [
  {
    key: "state",
    label: t("job.state"),
    width: 11,
    phone: "line",
    render: (worker) => html`<${RowState} worker=${worker} />`,
  },
  {
    key: "host",
    label: t("workers.host"),
    phone: "main",
    render: (worker) =>
      html`<a
          href=${href("workers", { id: worker.id })} title=${visible(`${nameOf(worker)}\n${worker.id}`)}>
          ${visible(nameOf(worker))}
        </a>
        <span class="narrow-only"><${Marks} figures=${worker.figures} /></span>`,
  },
  {
    key: "slots",
    label: t("workers.slots"),
    align: "end",
    width: 7.2,
    priority: 2,
    phone: "line",
    render: (worker) => html`<${Slots} worker=${worker} />`,
  },
  ...figureColumns().filter(({ key }) => key !== "marks"),
  {
    key: "seen",
    label: t("workers.seen"),
    align: "end",
    width: 7.4,
    priority: 2,
    phone: "side",
    render: (worker) => html`<${Time} at=${worker.last_seen_at} />`,
  },
  {
    key: "version",
    label: t("workers.version"),
    width: 5.5,
    priority: 4,
    render: (worker) => html`<span title=${visible(worker.version)}>${visible(worker.version) || "–"}</span>`,
  },
  {
    key: "breaker",
    label: t("workers.breaker"),
    width: 6,
    priority: 5,
    render: (worker) => html`<${Breaker} breaker=${worker.breaker} />`,
  },
  {
    key: "names",
    label: t("nav.names"),
    priority: 3,
    render: (worker) =>
      html`<span title=${visible(worker.names.join("\n"))}>${visible(worker.names.join(", "))}</span>`,
  },
  ...(onSlots ? [slotsColumn(onSlots)] : []),
];

/** @param {(worker: WorkerView) => void} onSlots @returns {import("../../ui/tables.js").Column<WorkerView>} */
const slotsColumn = (onSlots) => ({
  key: "act",
  label: html`<span class="sr">${t("job.actions")}</span>`,
  width: 2.6,
  priority: 2,
  render: (worker) => {
    const label = `${t("workers.slots.change")}: ${nameOf(worker)}`;
    return (
      worker.state !== "detached" &&
      html`<button
          type="button" class="icon-button row-action" aria-haspopup="dialog" aria-label=${label}
          title=${label} onClick=${() => onSlots(worker)}>
          <${Icon} name="settings" />
        </button>`
    );
  },
});

/** @param {WorkerView[]} workers The workers that a drain concerns. */
const live = (workers) => workers.filter((worker) => worker.state === "fresh" || worker.state === "stale");

/**
 * The button that drains the selected workers. Without a selection, it drains all workers that the filters select.
 * @param {{chosen: WorkerView[], all: WorkerView[], filters: Record<string, string>, onDrain: NonNullable<OnDrain>}}
 *   props
 */
function DrainChosen({ chosen, all, filters, onDrain }) {
  const workers = live(chosen.length > 0 ? chosen : all);
  if (workers.length === 0) return null;
  const what =
    chosen.length > 0
      ? workers.map(nameOf).join(", ")
      : Object.entries(filters)
          .map(([key, value]) => `${t(FILTERS[key]?.label ?? key)}: ${value}`)
          .join(", ");
  return html`<p class="row">
      <${Button}
        opensDialog onClick=${() => onDrain({ worker_ids: workers.map((worker) => worker.id) }, what)}>
        ${t("workers.drain.set", { count: workers.length })}
      <//>
    </p>`;
}
