/** All jobs in one table: found by filters that stand in the address, chosen by hand or "all that match", and acted upon. */
import { html, useEffect, useMemo, useRef, useState } from "../lib.js";
import { get, may } from "../api.js";
import { ACTIONS, ActionDialog, useActionEnds } from "../actions.js";
import { curl } from "../curl.js";
import { t, tOr } from "../i18n.js";
import { useLatest, useResource } from "../live.js";
import { usePref } from "../prefs.js";
import { href } from "../router.js";
import { STATES, isIn } from "../states.js";
import { visible } from "../text.js";
import { Button, Copy, Empty, ErrorBox, Loading, Pager, Tabs } from "../ui/controls.js";
import { Dialog } from "../ui/dialogs.js";
import { Duration, Id, Num, State, Text, Time, nowMs, useTick } from "../ui/formats.js";
import { FilterInput, FilterInstant } from "../ui/filters.js";
import { Field } from "../ui/forms.js";
import { useKeys } from "../ui/keys.js";
import { NewRows, Table, useHold, useSteadyRows } from "../ui/tables.js";

const CAUSES = ["error", "timeout", "undecodable", "invalid_argument", "lost", "expired", "canceled"];
const TEXT_FILTERS = ["q", "name", "tag", "worker", "text"];
const TIME_FILTERS = ["created_after", "created_before", "finished_after", "finished_before"];
/** What selects jobs, as the API names it. */
const FILTERS = ["state", ...TEXT_FILTERS, "cause", "failure_group", ...TIME_FILTERS];
const PAGE = 50;
const DEFAULT_COLUMNS = [
  "state",
  "name",
  "id",
  "attempt",
  "created",
  "started",
  "duration",
  "worker",
  "cause",
];

/** @param {{query: Record<string, string>, go: typeof import("../router.js").go, session: import("../api.js").Session}} props */
export function Page({ query, go, session }) {
  const filter = useMemo(
    () => Object.fromEntries(FILTERS.flatMap((key) => (query[key] ? [[key, query[key]]] : []))),
    [JSON.stringify(query)],
  );
  const order = orderOf(query);
  const filterKey = JSON.stringify([filter, order, query["cursor"] ?? ""]);
  const [selected, setSelected] = useState(/** @type {Set<string>} */ (new Set()));
  const [dialog, setDialog] = useState(
    /** @type {{action: import("../actions.js").ActionName, target: import("../actions.js").Target} | null} */ (
      null
    ),
  );
  const [isChoosing, setChoosing] = useState(false);
  const hold = useHold();
  const mayOperate = may(session, "operate");
  const isHeld = hold.isHeld || selected.size > 0 || dialog !== null;
  const page = useResource(
    (signal) => get("api/jobs", { ...filter, order, cursor: query["cursor"], limit: PAGE }, signal),
    [filterKey],
    { events: ["jobs"], leastMs: 1000, everyMs: 4000 },
  );
  const isCurrent = useRef(filterKey);
  if (!page.isLoading) isCurrent.current = filterKey;
  // What one's own action did is shown at once, wherever the pointer is.
  const [ended, setEnded] = useState(0);
  const { rows, newCount, showNew } = useSteadyRows(
    page.data?.jobs ?? [],
    keyOf,
    isHeld,
    `${ended} ${isCurrent.current}`,
  );
  const live = useLatest("jobs");
  const counts = live?.counts ?? page.data?.counts ?? {};
  useActionEnds(() => void page.reload().then(() => setEnded((/** @type {number} */ n) => n + 1)));
  useEffect(() => setSelected(new Set()), [filterKey]);
  useKeys({ Escape: () => setSelected(new Set()) });

  /** @param {Record<string, string | undefined>} changes */
  const change = (changes, replace = false) => go("jobs", { ...query, cursor: "", ...changes }, { replace });
  const { state: _, ...unstated } = query;
  const tabs = [
    {
      key: "",
      label: t("jobs.all"),
      count: sum(counts),
      href: href("jobs", { ...unstated, order: "", cursor: "" }),
    },
    ...Object.keys(STATES)
      .filter((state) => counts[state] !== undefined || state === query["state"])
      .map((state) => ({
        key: state,
        label: tOr(`state.${state}`, state),
        count: counts[state] ?? 0,
        kind: state === "failed" && counts[state] ? "bad" : "",
        href: href("jobs", { ...query, state, order: "", cursor: "" }),
      })),
  ];
  const isFiltered = Object.keys(filter).length > 0;
  return html`<div class="page-head"><h1>${t("nav.jobs")}</h1>
      <${Button} opensDialog class="small" onClick=${() => setChoosing(true)}>${t("columns")}<//>
      <${Copy} kind="wide-only" label=${t("copy.curl")} text=${() => curl(session, "GET", "api/jobs", { query: { ...filter, order, limit: PAGE } })} />
      ${may(session, "push") && html`<a class="button small primary as-link" href=${href("enqueue")}>${t("nav.enqueue")}</a>`}</div>
    <${Tabs} label=${t("job.state")} tabs=${tabs} current=${query["state"] ?? ""} />
    <${Filters} query=${query} change=${change} />
    ${
      mayOperate &&
      html`<${Selection} count=${selected.size} isAllPossible=${rows.length > 0} state=${query["state"] ?? ""} onClear=${() => setSelected(new Set())}
      onAct=${(/** @type {any} */ action, /** @type {boolean} */ isAll) => setDialog({ action, target: isAll ? { filter } : { ids: [...selected] } })} />`
    }
    <${ErrorBox} problem=${page.problem} onRetry=${page.reload} />
    <div ...${hold.bind} aria-busy=${String(page.isLoading)}><${NewRows} count=${newCount} onShow=${showNew} />
      ${
        !page.data
          ? html`<${Loading} isLoading=${!page.problem} />`
          : html`<${JobTable} rows=${rows} go=${go} selected=${selected} onSelect=${mayOperate ? setSelected : undefined}
        empty=${html`<div class="card"><${NoJobs} session=${session} isFiltered=${isFiltered} hasMore=${page.data.next_cursor !== null} /></div>`} />`
      }</div>
    <${Pager} hasNext=${Boolean(page.data?.next_cursor)} hasBefore=${Boolean(query["cursor"])} isLoading=${page.isLoading} onNext=${() => go("jobs", { ...query, cursor: page.data?.next_cursor })} onFirst=${() => go("jobs", { ...query, cursor: "" })} />
    ${
      dialog &&
      html`<${ActionDialog} ...${dialog} onClose=${() => setDialog(null)} onBegun=${() => {
        setSelected(new Set());
        void page.reload();
      }} />`
    }
    ${isChoosing && html`<${Columns} onClose=${() => setChoosing(false)} />`}`;
}

/**
 * @param {Record<string, string>} query
 * @returns {"oldest" | "newest"}
 */
function orderOf(query) {
  const asked = query["order"];
  if (asked === "oldest" || asked === "newest") return asked;
  // Among unfinished jobs people look for the next one, or the one that has waited longest; among finished ones for the latest.
  const state = query["state"] ?? "";
  return state in STATES && !isIn(state, "finished") ? "oldest" : "newest";
}

/** @param {any} job */
const keyOf = (job) => job.id;
/** @param {Record<string, number>} counts */
const sum = (counts) => Object.values(counts).reduce((all, count) => all + count, 0);

/** @type {Record<string, import("../ui/tables.js").Column>} */
const COLUMNS = {
  state: {
    key: "state",
    get label() {
      return t("job.state");
    },
    render: (job) => html`<${State} state=${job.state} />`,
  },
  name: {
    key: "name",
    get label() {
      return t("job.name");
    },
    render: (job) =>
      html`<a href=${href("job", { id: job.id })}><${Text} value=${job.name} max=${80} /></a>${job.tags.slice(0, 4).map((/** @type {string} */ tag) => html` <a class="chip" href=${href("jobs", { tag })}><${Text} value=${tag} max=${30} /></a>`)}`,
  },
  id: {
    key: "id",
    get label() {
      return t("job.id");
    },
    priority: 3,
    render: (job) => html`<${Id} id=${job.id} />`,
  },
  priority: {
    key: "priority",
    get label() {
      return t("job.priority");
    },
    align: "end",
    priority: 3,
    render: (job) => html`<${Num} value=${job.priority} />`,
  },
  attempt: {
    key: "attempt",
    get label() {
      return t("job.attempt");
    },
    align: "end",
    priority: 2,
    render: (job) =>
      html`<span class="num" title=${t("job.failures_of", { failures: job.failures, most: job.max_retry })}>${job.attempt}${job.failures > 0 && html` <span class="fails">✗${job.failures}</span>`}</span>`,
  },
  created: {
    key: "created",
    get label() {
      return t("job.created");
    },
    align: "end",
    render: (job) => html`<${Time} at=${job.created_at} />`,
  },
  run_at: {
    key: "run_at",
    get label() {
      return t("job.due");
    },
    align: "end",
    priority: 2,
    render: (job) => html`<${Time} at=${job.run_at} />`,
  },
  started: {
    key: "started",
    get label() {
      return t("job.started");
    },
    align: "end",
    priority: 3,
    render: (job) => html`<${Time} at=${job.started_at} />`,
  },
  finished: {
    key: "finished",
    get label() {
      return t("job.finished");
    },
    align: "end",
    priority: 3,
    render: (job) => html`<${Time} at=${job.finished_at} />`,
  },
  duration: {
    key: "duration",
    get label() {
      return t("job.duration");
    },
    align: "end",
    priority: 2,
    render: (job) => html`<${Ran} job=${job} />`,
  },
  worker: {
    key: "worker",
    get label() {
      return t("job.worker");
    },
    priority: 3,
    render: (job) =>
      job.worker_id
        ? html`<${Id} id=${job.worker_id} href=${href("workers", { id: job.worker_id })} />`
        : html`<${Num} value=${null} />`,
  },
  cause: {
    key: "cause",
    get label() {
      return t("job.cause");
    },
    priority: 2,
    render: (job) =>
      job.cause ? tOr(`cause.${job.cause}`, visible(job.cause)) : html`<${Num} value=${null} />`,
  },
  timeout: {
    key: "timeout",
    get label() {
      return t("job.timeout");
    },
    align: "end",
    priority: 3,
    render: (job) => html`<${Duration} ms=${job.timeout * 1000} />`,
  },
};

/** @param {{job: any}} props How long the latest attempt ran, or runs. */
function Ran({ job }) {
  useTick();
  if (!job.started_at) return html`<${Num} value=${null} />`;
  if (job.finished_at)
    return html`<${Duration} ms=${Math.max(0, Date.parse(job.finished_at) - Date.parse(job.started_at))} />`;
  return job.state === "running"
    ? html`<${Duration} ms=${Math.max(0, Math.floor((nowMs() - Date.parse(job.started_at)) / 1000) * 1000)} />`
    : html`<${Num} value=${null} />`;
}

/** @param {{rows: any[], go: any, selected: Set<string>, onSelect: ((selected: Set<string>) => void) | undefined, empty: any}} props */
function JobTable({ rows, go, selected, onSelect, empty }) {
  const [chosen] = usePref("columns", DEFAULT_COLUMNS);
  const columns = (Array.isArray(chosen) ? chosen : DEFAULT_COLUMNS).flatMap((key) =>
    COLUMNS[key] ? [COLUMNS[key]] : [],
  );
  return html`<${Table} caption=${t("nav.jobs")} columns=${columns.length ? columns : [COLUMNS["name"]]} rows=${rows} rowKey=${keyOf} label=${(/** @type {any} */ job) => job.name} selected=${selected} onSelect=${onSelect}
    onOpen=${(/** @type {any} */ job) => go("job", { id: job.id })} empty=${empty} />`;
}

/** @param {{onClose: () => void}} props */
function Columns({ onClose }) {
  const [chosen, setChosen] = usePref("columns", DEFAULT_COLUMNS);
  const toggle = (/** @type {string} */ key) => {
    const next = chosen.includes(key)
      ? chosen.filter((/** @type {string} */ one) => one !== key)
      : Object.keys(COLUMNS).filter((one) => one === key || chosen.includes(one));
    if (next.length) setChosen(next);
  };
  return html`<${Dialog} title=${t("columns")} onClose=${onClose}><ul class="plain">${Object.values(COLUMNS).map((column) => html`<li key=${column.key}><label class="check"><input type="checkbox" checked=${chosen.includes(column.key)} onChange=${() => toggle(column.key)} /> ${column.label}</label></li>`)}</ul>
    <footer><${Button} onClick=${() => setChosen(null)}>${t("columns.reset")}<//><${Button} kind="primary" onClick=${onClose}>${t("close")}<//></footer><//>`;
}

/** @param {{query: Record<string, string>, change: (changes: Record<string, string | undefined>, replace?: boolean) => void}} props */
function Filters({ query, change }) {
  const active = FILTERS.filter((key) => key !== "state" && query[key]);
  const isMoreWanted = ["worker", "text", "failure_group", ...TIME_FILTERS].some((key) => query[key]);
  const [isMore, setMore] = useState(isMoreWanted);
  const names = useNames(query["name"] ?? "");
  return html`<form class=${`filters ${isMore ? "is-open" : ""}`} role="search" aria-label=${t("filters")} onSubmit=${(/** @type {Event} */ e) => e.preventDefault()}>
    <${Typed} name="q" query=${query} change=${change} />
    <${Typed} name="name" query=${query} change=${change} list="names" />
    <${Typed} name="tag" query=${query} change=${change} />
    <${Field} label=${t("filter.cause")}>${(/** @type {any} */ a) => html`<select ...${a} value=${query["cause"] ?? ""} onChange=${(/** @type {any} */ e) => change({ cause: e.target.value })}><option value="">${t("filter.any")}</option>${CAUSES.map((cause) => html`<option key=${cause} value=${cause}>${t(`cause.${cause}`)}</option>`)}</select>`}<//>
    <${Field} label=${t("filter.order")}>${(/** @type {any} */ a) => html`<select ...${a} value=${orderOf(query)} onChange=${(/** @type {any} */ e) => change({ order: e.target.value })}><option value="newest">${t("filter.newest")}</option><option value="oldest">${t("filter.oldest")}</option></select>`}<//>
    <datalist id="names">${names.map((/** @type {string} */ name) => html`<option key=${name} value=${name} />`)}</datalist>
    <${Button} class="more" aria-expanded=${String(isMore)} onClick=${() => setMore(!isMore)}>${t(isMore ? "filters.less" : "filters.more")}<//>
    ${isMore && html`<${Typed} name="text" query=${query} change=${change} /><${Typed} name="worker" query=${query} change=${change} />${TIME_FILTERS.map((name) => html`<${Instant} key=${name} name=${name} query=${query} change=${change} />`)}`}
    ${
      active.length > 0 &&
      html`<div class="chips">${active.map((key) => html`<span key=${key} class="chip">${t(`filter.${key}`)}: <${Text} value=${query[key]} max=${60} /><button type="button" aria-label=${t("filter.remove", { name: t(`filter.${key}`) })} onClick=${() => change({ [key]: "" })}>✕</button></span>`)}
      <button type="button" class="link" onClick=${() => change(Object.fromEntries(active.map((key) => [key, ""])))}>${t("filter.clear")}</button></div>`
    }
  </form>`;
}

/** @param {string} typed */
function useNames(typed) {
  const [names, setNames] = useState(/** @type {string[]} */ ([]));
  useEffect(() => {
    const aborter = new AbortController();
    get("api/names", { q: typed, sort: "pushed", limit: 20 }, aborter.signal).then(
      (answer) => setNames(answer.names.map((/** @type {any} */ name) => name.name)),
      () => {},
    );
    return () => aborter.abort();
  }, [typed]);
  return names;
}

/** @param {{name: string, query: Record<string, string>, change: any, list?: string}} props A filter that takes effect while it is typed. */
function Typed({ name, query, change, list }) {
  return html`<${FilterInput} label=${t(`filter.${name}`)} value=${query[name] ?? ""} onChange=${(/** @type {string} */ text) => change({ [name]: text }, true)} list=${list} />`;
}

/** @param {{name: string, query: Record<string, string>, change: any}} props In UTC, as the times of the API. */
function Instant({ name, query, change }) {
  return html`<${FilterInstant} label=${t(`filter.${name}`)} value=${query[name] ?? ""} onChange=${(/** @type {string} */ at) => change({ [name]: at }, true)} />`;
}

/** @param {{count: number, isAllPossible: boolean, state: string, onClear: () => void, onAct: (action: string, isAll: boolean) => void}} props */
function Selection({ count, isAllPossible, state, onClear, onAct }) {
  const [isAll, setAll] = useState(false);
  useEffect(() => {
    if (count > 0) setAll(false);
  }, [count]);
  useEffect(() => setAll(false), [state]);
  if (!isAllPossible) return null;
  // Where no state is chosen every action is offered, and the dry run tells what each would touch.
  const fitting = STATES[state]?.actions ?? ACTIONS;
  const isOn = isAll || count > 0;
  return html`<div class=${`selection ${isOn ? "on" : ""}`} role="group" aria-label=${t("selection")}>
    <span aria-live="polite">${isAll ? html`<strong>${t("selection.all")}</strong>` : count > 0 ? html`<strong>${t("selection.count", { count })}</strong>` : html`<span class="muted">${t("selection.none")}</span>`}</span>
    ${
      !isAll &&
      html`<button type="button" class="link" onClick=${() => {
        onClear();
        setAll(true);
      }}>${t("selection.take_all")}</button>`
    }
    ${
      isOn &&
      html`<span class="row">${fitting.map((action) => html`<${Button} opensDialog key=${action} class="small" kind=${action === "delete" ? "danger" : ""} onClick=${() => onAct(action, isAll)}>${t(`action.${action}`)}<//>`)}
      <button type="button" class="link" onClick=${() => {
        onClear();
        setAll(false);
      }}>${t("selection.clear")}</button></span>`
    }</div>`;
}

/** @param {{session: import("../api.js").Session, isFiltered: boolean, hasMore: boolean}} props */
function NoJobs({ session, isFiltered, hasMore }) {
  if (hasMore) return html`<${Empty} title=${t("jobs.empty.so_far")}>${t("jobs.empty.so_far.text")}<//>`;
  if (isFiltered)
    return html`<${Empty} title=${t("jobs.empty.filtered")}><p><a href=${href("jobs")}>${t("filter.clear")}</a></p><//>`;
  return html`<${Empty} title=${t("jobs.empty.first")} curl=${curl(session, "POST", "api/jobs", { body: { name: "hello", argument: { to: "world" } } })}>
    ${may(session, "push") && html`<p><a href=${href("enqueue")}>${t("jobs.empty.form")}</a></p>`}<//>`;
}
