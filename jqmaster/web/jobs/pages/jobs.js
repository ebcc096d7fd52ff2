/** All jobs in one table. Filters are in the address. Actions apply to selected jobs, or to all jobs that match. */
import { html, useEffect, useMemo, useState } from "../../core/lib.js";
import { may } from "../../core/api.js";
import { ACTIONS, ActionDialog, useActionEnds } from "../actions.js";
import { useBatch } from "../../batches/parts.js";
import { curl } from "../../core/curl.js";
import { number, t, tOr } from "../../core/i18n.js";
import {
  ColumnsDialog,
  chosenColumns,
  includeOf,
  orderedBy,
  placed,
  useErrorColumn,
  useJobColumns,
} from "../columns.js";
import { MOST, exportJobs } from "../export.js";
import { FILTERS, Filters, actionFilterOf, filterOf, useDeployedMs } from "../filters.js";
import { PAGE, useJobCount, useJobSearch } from "../search.js";
import { useLatest } from "../../core/live.js";
import { PauseName, pauseColumn } from "../../constraints/pause_dialog.js";
import { usePref } from "../../core/prefs.js";
import { href } from "../../core/router.js";
import { STATES, isIn } from "../../core/states.js";
import { Bar, Button, Copy, Empty, ErrorBox, Loading, Pager, Tabs } from "../../ui/controls.js";
import { attempt, toast } from "../../ui/dialogs.js";
import { useKeys } from "../../ui/keys.js";
import { NewRows, Table, useHold, useSteadyRows } from "../../ui/tables.js";
import { useProgress } from "../../ui/progress.js";
import { useTitle } from "../../ui/titles.js";

/** @typedef {import("../../core/lib.js").FieldEvent} FieldEvent */

/** @typedef {import("../../../answers").Schemas["ListedJob"]} ListedJob */

/** @param {string} by The column whose instant orders the list. @returns {string} The end of the key of its order. */
const orderWord = (by) => (by === "created" ? "" : by === "run_at" ? ".due" : ".change");

/** @param {{query: Record<string, string>, go: typeof import("../../core/router.js").go, session: import("../../core/api.js").Session}} props */
export function Page({ query, go, session }) {
  const state = query["state"] ?? "";
  const columns = useJobColumns(state, query["columns"]);
  const batch = useBatch(query["batch"]);
  const [selected, setSelected] = useState(/** @type {Set<string>} */ (new Set()));
  const [dialog, setDialog] = useState(
    /** @type {{action: import("../actions.js").ActionName, target: import("../actions.js").Target} | null} */ (
      null
    ),
  );
  const [isChoosing, setChoosing] = useState(false);
  const mayOperate = may(session, "operate");
  const list = useList(query, columns, selected.size > 0 || dialog !== null);
  const { page, filter, order, rows } = list;
  const live = useLatest("jobs");
  const counts = live?.counts ?? page.data?.counts ?? {};
  useEffect(() => setSelected(new Set()), [list.listed]);
  useKeys({ Escape: () => setSelected(new Set()) });
  useTitle(title(state, list.matching, counts));

  /** @param {Record<string, string | undefined>} changes */
  const change = (changes, replace = false) => go("jobs", { ...query, cursor: "", ...changes }, { replace });
  const act = (/** @type {import("../actions.js").ActionName} */ action, /** @type {boolean} */ isAll) =>
    setDialog({ action, target: isAll ? { filter: actionFilterOf(filter()) } : { ids: [...selected] } });
  return html`<${Head}
      query=${query} filter=${filter} order=${order} session=${session}
      onColumns=${() => setChoosing(true)} />
    <${Tabs} label=${t("job.state")} tabs=${tabsOf(query, list, counts)} current=${state} />
    <${Filters} query=${query} batch=${batch} change=${change} />
    <${Matches} query=${query} list=${list} change=${change} />
    ${
      mayOperate &&
      html`<${Selection}
          count=${selected.size} isAllPossible=${rows.length > 0 && !page.isLoading} state=${state}
          onClear=${() => setSelected(new Set())} onAct=${act} />`
    }
    <${ErrorBox} problem=${page.problem} onRetry=${page.reload} />
    <${Searching}
      page=${page}
      of=${batch ? batch.counts.total - batch.counts.deleted : state ? (counts[state] ?? 0) : sum(counts)} />
    ${page.data?.is_partial && html`<p class="note">${t("jobs.partial")}</p>`}
    <${Rows}
      query=${query} list=${list} columns=${columns} session=${session} selected=${selected}
      onSelect=${setSelected} change=${change} go=${go} />
    <${Pager}
      hasNext=${Boolean(page.data?.next_cursor)} hasBefore=${Boolean(query["cursor"])}
      isLoading=${page.isLoading} onNext=${() => go("jobs", { ...query, cursor: page.data?.next_cursor })}
      onFirst=${() => go("jobs", { ...query, cursor: "" })} />
    ${
      dialog &&
      html`<${ActionDialog} ...${dialog} onClose=${() => setDialog(null)} onBegun=${() => {
        setSelected(new Set());
        void page.reload();
      }} />`
    }
    ${isChoosing && html`<${ColumnsDialog} columns=${columns} onClose=${() => setChoosing(false)} />`}`;
}

/** @typedef {ReturnType<typeof useList>} List */

/**
 * Load the jobs that the address selects, and how many jobs match in each state. While the list is held, its rows do
 * not move.
 * @param {Record<string, string>} query
 * @param {import("../columns.js").JobColumn[]} columns
 * @param {boolean} isInUse Whether jobs are selected, or a dialog is about them.
 */
function useList(query, columns, isInUse) {
  const state = query["state"] ?? "";
  const order = orderOf(query);
  const include = includeOf(columns);
  const deployedMs = useDeployedMs(query["within"] === "deploy");
  const isFiltered = FILTERS.some((key) => key !== "state" && query[key]);
  const filter = () => filterOf(query, deployedMs);
  const chosen = JSON.stringify([FILTERS.map((key) => query[key] ?? ""), deployedMs]);
  const listed = JSON.stringify([chosen, order, query["cursor"] ?? "", include]);
  const page = useJobSearch(filter, { order, cursor: query["cursor"], include, of: listed });
  // Count the jobs in all states, so that each tab can show its number.
  const counted = useJobCount(
    isFiltered ? () => ({ ...filter(), state: "" }) : null,
    JSON.stringify([
      FILTERS.map((key) => (key === "state" ? isIn(state, "finished") : (query[key] ?? ""))),
      deployedMs,
    ]),
  );
  const hold = useHold();
  const isHeld = hold.isHeld || isInUse;
  // The number of the user's finished actions. When it grows, the list shows their effect at once, even if the pointer
  // is over it.
  const [ended, setEnded] = useState(0);
  const steady = useSteadyRows(
    page.progress?.jobs ?? page.data?.jobs ?? [],
    keyOf,
    isHeld,
    `${ended} ${page.progress ? `${listed} ${page.progress.jobs.length}` : page.data?.of}`,
  );
  // Whether the whole list is shown. Only a whole list can be sorted by a column for which the store has no order.
  const isWhole = Boolean(page.data && !page.data.next_cursor && !query["cursor"] && !page.progress);
  const rows = useSorted(steady.rows, columns, isWhole ? query : {});
  useActionEnds(() => void page.reload().then(() => setEnded((/** @type {number} */ n) => n + 1)));
  useProgress(include.includes("progress") ? rows : [], isHeld || Boolean(page.progress), page.reload);
  const matching = isFiltered ? counted : null;
  return { page, filter, order, listed, isFiltered, matching, isWhole, hold, steady, rows };
}

/**
 * @param {{query: Record<string, string>, filter: () => Record<string, string>, order: string,
 *   session: import("../../core/api.js").Session, onColumns: () => void}} props
 */
function Head({ query, filter, order, session, onColumns }) {
  const link = () =>
    new URL(href("jobs", { ...query, columns: query["columns"] || chosenColumns() }), location.href).href;
  return html`<div class="page-head">
      <h1>${t("nav.jobs")}</h1>
      <${Button} opensDialog class="small" onClick=${onColumns}>${t("columns")}<//>
      <${Export} filter=${filter} order=${order} />
      <${Copy} kind="wide-only" label=${t("copy.link")} text=${link} />
      <${Copy}
        kind="wide-only" label=${t("copy.curl")}
        text=${() => curl(session, "GET", "api/jobs", { query: { ...filter(), order, limit: PAGE } })} />
      ${
        may(session, "push") &&
        html`<a class="button small primary as-link" href=${href("enqueue")}>${t("nav.enqueue")}</a>`
      }
    </div>`;
}

/** @param {List} list @param {string} state @returns {boolean} Whether the number of jobs that match is exact. */
const isExact = ({ isFiltered, matching }, state) =>
  !isFiltered || (matching?.states[state]?.is_exact ?? true);

/**
 * @param {Record<string, string>} query
 * @param {List} list
 * @param {Record<string, number>} counts The numbers of all jobs by state.
 * @returns {import("../../ui/controls.js").Tab[]} A tab for all states, and one for each.
 */
function tabsOf(query, list, counts) {
  const { isFiltered, matching } = list;
  const { state, ...unstated } = query;
  const countOf = (/** @type {string} */ one) =>
    isFiltered ? (matching?.states[one]?.count ?? (matching ? 0 : undefined)) : (counts[one] ?? 0);
  return [
    {
      key: "",
      label: t("jobs.all"),
      count: isFiltered ? matching?.count : sum(counts),
      isAtLeast: isFiltered && matching !== null && !matching.is_exact,
      href: href("jobs", { ...unstated, order: "", sort: "", cursor: "" }),
    },
    ...Object.keys(STATES)
      .filter((one) => counts[one] !== undefined || one === (state ?? ""))
      .map((one) => ({
        key: one,
        label: tOr(`state.${one}`, one),
        count: countOf(one),
        isAtLeast: !isExact(list, one),
        kind: one === "failed" && countOf(one) ? "bad" : "",
        href: href("jobs", { ...query, state: one, order: "", sort: "", cursor: "" }),
      })),
  ];
}

/** @typedef {(changes: Record<string, string | undefined>, replace?: boolean) => void} Change */

/**
 * The number of jobs that match, and the choice of the order.
 * @param {{query: Record<string, string>, list: List, change: Change}} props
 */
function Matches({ query, list, change }) {
  const state = query["state"] ?? "";
  const { matching, order } = list;
  const word = orderWord(instantOf(query));
  return html`<div class="list-head">
      <p class="matches" aria-live="polite">
        ${
          matching
            ? t(isExact(list, state) || state === "" ? "jobs.match" : "jobs.match.at_least", {
                count: state ? (matching.states[state]?.count ?? 0) : matching.count,
              })
            : ""
        }
      </p>
      <label class="order">
        ${t("filter.order")} <select
          value=${order}
          onChange=${(/** @type {FieldEvent} */ e) => change({ order: e.target.value, sort: "" })}>
          <option value="newest">${t(`filter.newest${word}`)}</option>
          <option value="oldest">${t(`filter.oldest${word}`)}</option>
        </select>
      </label>
    </div>`;
}

/** @param {Record<string, string>} query @returns {string} The column whose instant orders the list. */
const instantOf = (query) =>
  // The members of a batch are listed in the order in which they were created.
  query["batch"] ? "created" : orderedBy(query["state"] ?? "");

/**
 * @param {{query: Record<string, string>, list: List, columns: import("../columns.js").JobColumn[],
 *   session: import("../../core/api.js").Session, selected: Set<string>, onSelect: (selected: Set<string>) => void, change: Change,
 *   go: typeof import("../../core/router.js").go}} props
 */
function Rows({ query, list, columns, session, selected, onSelect, change, go }) {
  const state = query["state"] ?? "";
  const { page, order, listed, isFiltered, isWhole, hold, steady, rows } = list;
  const [density] = usePref("density", "normal");
  const mayOperate = may(session, "operate");
  // During a search, the rows count as up to date: the jobs found so far are part of the final result.
  const isOutdated = page.isLoading && !page.progress;
  const by = instantOf(query);
  const shownColumns = placed(useErrorColumn(columns, rows, listed), by || "created").map((column) => ({
    ...column,
    ...((isWhole ? column.by : column.key === by) && { sort: column.key }),
  }));
  if (mayOperate && state !== "running" && !isIn(state, "finished"))
    // Finished jobs have no pause button, because a pause does not affect them.
    shownColumns.push(
      pauseColumn((job) => (isIn(job.state, "finished") ? null : html`<${PauseName} name=${job.name} />`)),
    );
  const onSort = (/** @type {string} */ key) => {
    if (key === by) change({ sort: "", order: order === "newest" ? "oldest" : "newest" }, true);
    else change({ sort: query["sort"] === key ? `-${key}` : key }, true);
  };
  const sort = query["sort"] && isWhole ? query["sort"].replace(/^-/, "") : by;
  const isAscending = query["sort"] && isWhole ? !query["sort"].startsWith("-") : order === "oldest";
  const empty = page.progress
    ? html`<div></div>`
    : html`<div class="card">
        <${NoJobs}
          session=${session} isFiltered=${isFiltered || state !== ""}
          hasMore=${page.data?.next_cursor !== null} />
      </div>`;
  return html`<div
      ...${hold.bind} aria-busy=${String(page.isLoading)}
      class=${`steady ${density === "compact" ? "compact" : ""} ${isOutdated ? "outdated" : ""}`}>
      <${NewRows} count=${steady.newCount} onShow=${steady.showNew} />
      ${
        !page.data && !page.progress
          ? html`<${Loading} isLoading=${!page.problem} />`
          : html`<${Table}
              caption=${t("nav.jobs")} isFixed columns=${shownColumns} rows=${rows} rowKey=${keyOf}
              label=${(/** @type {ListedJob} */ job) => job.name} selected=${selected}
              onSelect=${mayOperate ? onSelect : undefined} sort=${sort} isAscending=${isAscending}
              onSort=${onSort} onOpen=${(/** @type {ListedJob} */ job) => go("job", { id: job.id })}
              empty=${empty} />`
      }
    </div>`;
}

/**
 * @param {Record<string, string>} query
 * @returns {"oldest" | "newest"}
 */
function orderOf(query) {
  const asked = query["order"];
  if (asked === "oldest" || asked === "newest") return asked;
  // In a list of unfinished jobs, people look for the next job or for the job that has waited longest. In a list of
  // finished jobs, they look for the latest.
  const state = query["state"] ?? "";
  return state in STATES && !isIn(state, "finished") ? "oldest" : "newest";
}

/** @param {ListedJob} job */
const keyOf = (job) => job.id;
/** @param {Record<string, number>} counts */
const sum = (counts) => Object.values(counts).reduce((all, count) => all + count, 0);

/** @param {string} state @param {import("../../../answers").Schemas["JobCount"] | null} matching @param {Record<string, number>} counts */
function title(state, matching, counts) {
  const what = state ? `${tOr(`state.${state}`, state)} · ${t("nav.jobs")}` : t("nav.jobs");
  const count = matching ? (state ? matching.states[state]?.count : matching.count) : counts[state];
  return count === undefined ? what : `${what} (${number(count)})`;
}

/**
 * @param {ListedJob[]} rows
 * @param {import("../columns.js").JobColumn[]} columns
 * @param {Record<string, string>} query `sort`: the key of a column, with a minus sign for the largest first.
 */
function useSorted(rows, columns, query) {
  const sort = query["sort"] ?? "";
  const by = columns.find((column) => column.key === sort.replace(/^-/, ""))?.by;
  return useMemo(() => {
    if (!by) return rows;
    const sign = sort.startsWith("-") ? -1 : 1;
    return [...rows].sort((a, b) => {
      const [one, other] = [by(a), by(b)];
      return sign * (typeof one === "string" ? one.localeCompare(String(other)) : one - Number(other));
    });
  }, [rows, sort]);
}

/**
 * The progress of a search that has not filled a page yet.
 * @param {{page: ReturnType<typeof useJobSearch>, of: number}} props
 */
function Searching({ page, of }) {
  const lookedAt = page.progress?.lookedAt ?? 0;
  if (page.progress)
    return html`<p class="searching" role="status">
        ${t("jobs.searched", {
          looked_at: lookedAt,
          of: Math.max(of, lookedAt),
          count: page.progress.jobs.length,
        })} <${Bar} value=${lookedAt} of=${of} label=${t("jobs.search")} /> <${Button}
          class="small" onClick=${page.stop}>
          ${t("jobs.search.stop")}
        <//>
      </p>`;
  if (!page.isLong || !page.data) return null;
  const text = t(page.data.is_stopped ? "jobs.search.stopped" : "jobs.search.over", {
    looked_at: page.data.looked_at,
    of: Math.max(of, page.data.looked_at),
  });
  return html`<p class="searching muted">${text} <${Button} class="small" onClick=${page.reload}>${t("jobs.search.again")}<//></p>`;
}

/** @param {{filter: () => Record<string, string>, order: string}} props */
function Export({ filter, order }) {
  const [count, setCount] = useState(/** @type {number | null} */ (null));
  const run = (/** @type {"csv" | "json"} */ kind) => async () => {
    setCount(0);
    await attempt(async () => {
      const done = await exportJobs(kind, filter(), order, setCount);
      toast(t(done.isCut ? "jobs.exported.cut" : "jobs.exported", { count: done.count, most: MOST }));
    }, "");
    setCount(null);
  };
  if (count !== null) return html`<span class="muted" role="status">${t("jobs.exporting", { count })}</span>`;
  return html`<${Button} class="small wide-only" onClick=${run("csv")}>CSV<//><${Button} class="small wide-only" onClick=${run("json")}>JSON<//>`;
}

/**
 * @param {{count: number, isAllPossible: boolean, state: string, onClear: () => void, onAct: (action:
 *   import("../actions.js").ActionName, isAll: boolean) => void}} props
 */
function Selection({ count, isAllPossible, state, onClear, onAct }) {
  const [isAll, setAll] = useState(false);
  useEffect(() => {
    if (count > 0) setAll(false);
  }, [count]);
  useEffect(() => setAll(false), [state]);
  if (!isAllPossible) return null;
  // If no state is chosen, offer every action: a dry run tells how many jobs the action would change.
  const fitting = STATES[state]?.actions ?? ACTIONS;
  const isOn = isAll || count > 0;
  return html`<div class=${`selection ${isOn ? "on" : ""}`} role="group" aria-label=${t("selection")}>
      <span aria-live="polite">
        ${
          isAll
            ? html`<strong>${t("selection.all")}</strong>`
            : count > 0
              ? html`<strong>${t("selection.count", { count })}</strong>`
              : html`<span class="muted">${t("selection.none")}</span>`
        }
      </span>
      ${
        !isAll &&
        html`<button type="button" class="link" onClick=${() => {
          onClear();
          setAll(true);
        }}>${t("selection.take_all")}</button>`
      }
      ${
        isOn &&
        html`<span class="row">
            ${fitting.map(
              (action) =>
                html`<${Button}
                    opensDialog key=${action} class="small" kind=${action === "delete" ? "danger" : ""}
                    onClick=${() => onAct(action, isAll)}>
                    ${t(`action.${action}`)}
                  <//>`,
            )}
            <button
              type="button" class="link" onClick=${() => {
                onClear();
                setAll(false);
              }}>
              ${t("selection.clear")}
            </button>
          </span>`
      }
    </div>`;
}

/** @param {{session: import("../../core/api.js").Session, isFiltered: boolean, hasMore: boolean}} props */
function NoJobs({ session, isFiltered, hasMore }) {
  if (hasMore) return html`<${Empty} title=${t("jobs.empty.so_far")}>${t("jobs.empty.so_far.text")}<//>`;
  if (isFiltered)
    return html`<${Empty} title=${t("jobs.empty.filtered")}><p><a href=${href("jobs")}>${t("filter.clear")}</a></p><//>`;
  return html`<${Empty} title=${t("jobs.empty.first")} curl=${curl(session, "POST", "api/jobs", { body: { name: "hello", argument: { to: "world" } } })}>
    ${may(session, "push") && html`<p><a href=${href("enqueue")}>${t("jobs.empty.form")}</a></p>`}<//>`;
}
