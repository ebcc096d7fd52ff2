/** The workers, alone or in groups: what each runs, how fast, how often it fails, and what keeps jobs from it. */
import { html, useState } from "../../core/lib.js";
import { get, may, post } from "../../core/api.js";
import { number, t, tOr } from "../../core/i18n.js";
import { useResource } from "../../core/live.js";
import { href } from "../../core/router.js";
import { visible } from "../../core/text.js";
import { DrainCountdown, DrainDialog } from "../drains.js";
import { SlotRules, SlotsDialog } from "../slots.js";
import { FigureFacts, Marks, figureColumns, sortedByFigures } from "../figures.js";
import { Bar, Button, Empty, ErrorBox, Loading, Tabs } from "../../ui/controls.js";
import { ConfirmCount, attempt } from "../../ui/dialogs.js";
import { Badge, Id, Num, Text, Time } from "../../ui/formats.js";
import { Icon } from "../../ui/icons.js";
import { NewRows, Table, useHold, useSteadyRows } from "../../ui/tables.js";
import { useTitle } from "../../ui/titles.js";

/** @typedef {import("../../../answers").Schemas["HeldJob"]} HeldJob */
/** @typedef {import("../../../answers").Schemas["WorkerList"]} WorkerList */

/** @typedef {import("../../../answers").Schemas["WorkerView"]} WorkerView */
/** @typedef {import("../../../answers").Schemas["WorkerGroup"]} WorkerGroup */

const STATES = ["fresh", "stale", "draining", "detached"];
/** @type {Record<WorkerView["state"], import("../../ui/formats.js").Kind> & Record<string, import("../../ui/formats.js").Kind>} */
const KINDS = { fresh: "ok", stale: "warn", draining: "info", detached: "bad" };
/** @type {Record<string, import("../../ui/formats.js").Kind>} */
const BREAKERS = { closed: "ok", half_open: "warn", open: "bad" };
// The time when a worker was last heard, and what it runs, change without an event.
const POLL_MS = 2000;
// Workers in trouble are listed above healthy ones.
const ORDER = /** @type {const} */ (["stale", "detached", "draining", "fresh"]);

/** @param {{worker: WorkerView}} props */
function WorkerState({ worker }) {
  return html`<${StateBadge} state=${worker.state} />
    ${
      worker.detached_by &&
      html` <span class="muted">${tOr(`workers.by.${worker.detached_by}`, visible(worker.detached_by))}</span>`
    }`;
}

/** @param {{state: WorkerView["state"]}} props */
const StateBadge = ({ state }) =>
  html`<${Badge} kind=${KINDS[state] ?? "off"}>${tOr(`worker.${state}`, visible(state))}<//>`;

/** @param {{worker: WorkerView}} props The state in a row. Anything else to say is one word, and in full in the title. */
function RowState({ worker }) {
  const { detached_by: by, breaker } = worker;
  const isBroken = breaker === "open" || breaker === "half_open";
  return html`<${StateBadge} state=${worker.state} />
    ${
      by &&
      html` <span class="muted wide-only" title=${tOr(`workers.by.${by}`, visible(by))}>${tOr(`workers.by.${by}.short`, visible(by))}</span>`
    }
    ${
      isBroken &&
      worker.state !== "detached" &&
      html` <span title=${`${t("workers.breaker")}: ${t(`workers.breaker.${breaker}`)}`}>
          <${Badge} kind=${BREAKERS[/** @type {"open"} */ (breaker)]}>
            ${t(`workers.breaker.${breaker}.short`)}
          <//>
        </span>`
    }
    <span class="wide-only"><${Marks} figures=${worker.figures} /></span>`;
}

/** @param {{breaker: WorkerView["breaker"]}} props */
function Breaker({ breaker }) {
  if (breaker === null) return html`<span class="muted" title=${t("workers.breaker.unknown")}>–</span>`;
  return html`<${Badge} kind=${BREAKERS[breaker] ?? "off"}>${tOr(`workers.breaker.${breaker}`, visible(breaker))}<//>`;
}

/** @param {{worker: {busy: number, max_jobs: number}}} props */
function Slots({ worker }) {
  return html`<span class="slots">
      <span class="num">${number(worker.busy)} / ${number(worker.max_jobs)}</span> <${Bar}
        value=${worker.busy} of=${worker.max_jobs} label=${t("workers.slots")}
        kind=${worker.busy >= worker.max_jobs ? "warn" : "info"} />
    </span>`;
}

/** @param {{query: Record<string, string>, go: typeof import("../../core/router.js").go, session: import("../../core/api.js").Session}} props */
export function Page({ query, go, session }) {
  const id = query["id"];
  return id
    ? html`<${One} id=${id} session=${session} />`
    : html`<${All} query=${query} go=${go} session=${session} />`;
}

/** @param {WorkerView} worker */
const nameOf = (worker) => `${worker.node_id || "–"}${worker.pid ? `:${worker.pid}` : ""}`;

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

/** @param {WorkerGroup} group @returns {string} The value that the list's filter takes for the group. */
const groupValue = (group) => (group.label === null ? group.value : `${group.label}=${group.value}`);

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

/**
 * @typedef {((selection: import("../drains.js").Selection, what: string) => void) | null} OnDrain
 *   Null: the reader may not drain.
 */

/** @param {string} by @param {WorkerGroup} group @returns {import("../drains.js").Selection} */
function selectionOf(by, group) {
  if (by === "label") return { label: { name: group.label ?? "", value: group.value } };
  return by === "node" ? { node_id: group.value } : { version: group.value };
}

/** @param {{by: string, query: Record<string, string>, go: typeof import("../../core/router.js").go, onDrain: OnDrain}} props */
function Groups({ by, query, go, onDrain }) {
  const { data, problem, reload } = useResource((signal) => get("api/workers/groups", { by }, signal), [by], {
    events: ["workers"],
    leastMs: 1000,
    pollMs: POLL_MS,
  });
  const sort = query["sort"] ?? "";
  const address = (/** @type {WorkerGroup} */ group) => ({ [by]: groupValue(group) });
  const rows = sortedByFigures(data?.groups ?? [], sort);
  return html`<${ErrorBox} problem=${problem} onRetry=${reload} />${
    data === null
      ? !problem && html`<${Loading} />`
      : html`<${Table}
          caption=${t(`workers.group.${by}`)} rows=${rows} rowKey=${groupValue}
          onOpen=${(/** @type {WorkerGroup} */ group) => go("workers", address(group))} sort=${sort}
          onSort=${(/** @type {string} */ next) =>
            go(
              "workers",
              { ...query, sort: next === sort ? "" : next },
              { replace: true },
            )} empty=${html`<${Empty} title=${t("workers.groups.none")} />`} columns=${[
            {
              key: "value",
              label: t(`workers.group.${by}`),
              phone: "main",
              render: (/** @type {WorkerGroup} */ group) =>
                html`<a href=${href("workers", address(group))}>
                    <${Text} value=${groupValue(group)} max=${80} />
                  </a>
                  <span class="narrow-only"><${Marks} figures=${group.figures} /></span>`,
            },
            {
              key: "states",
              label: t("nav.workers"),
              phone: "line",
              render: (/** @type {WorkerGroup} */ group) =>
                html`${ORDER.filter((state) => group.workers[state] > 0).map(
                  (state) =>
                    html`<${Badge} kind=${KINDS[state]}>${number(group.workers[state])} ${t(`worker.${state}`)}<//> `,
                )}`,
            },
            {
              key: "slots",
              label: t("workers.slots"),
              align: "end",
              priority: 2,
              render: (/** @type {WorkerGroup} */ group) => html`<${Slots} worker=${group} />`,
            },
            ...figureColumns(),
            ...(onDrain
              ? [
                  {
                    key: "act",
                    label: t("job.actions"),
                    phone: /** @type {const} */ ("side"),
                    render: (/** @type {WorkerGroup} */ group) =>
                      group.workers.fresh + group.workers.stale > 0 &&
                      html`<${Button}
                          opensDialog class="small"
                          aria-label=${`${t("workers.drain")}: ${visible(groupValue(group))}`}
                          onClick=${() => onDrain(selectionOf(by, group), groupValue(group))}>
                          ${t("workers.drain")}
                        <//>`,
                  },
                ]
              : []),
          ]} />`
  }`;
}

/** @param {WorkerList | null} answer @returns {WorkerView[]} The workers without those that are part of a master: nobody has to care for these. */
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
    chosen
      .filter((worker) => !state || worker.state === state)
      .sort(
        (a, b) =>
          ORDER.indexOf(a.state) - ORDER.indexOf(b.state) ||
          a.node_id.localeCompare(b.node_id) ||
          a.id.localeCompare(b.id),
      ),
    sort,
  );
  const steady = useSteadyRows(
    wanted,
    (worker) => worker.id,
    hold.isHeld,
    JSON.stringify([state, filters, sort, data === null]),
  );
  const tabs = ["", ...STATES].map((one) => ({
    key: one,
    label: one ? t(`worker.${one}`) : t("jobs.all"),
    href: href("workers", { ...filters, state: one }),
    count: chosen.filter((worker) => !one || worker.state === one).length,
    ...(["stale", "detached"].includes(one) &&
      chosen.some((worker) => worker.state === one) && { kind: "bad" }),
  }));
  return html`${
    Object.keys(filters).length > 0 &&
    html`<p class="chips">
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
      </p>`
  }
    <${Tabs} label=${t("nav.workers")} tabs=${tabs} current=${state} />
    <${ErrorBox} problem=${problem} onRetry=${reload} />
    ${
      onDrain &&
      data !== null &&
      html`<${DrainChosen}
          chosen=${wanted.filter((worker) => selected.has(worker.id))}
          all=${Object.keys(filters).length > 0 ? wanted : []} filters=${filters} onDrain=${onDrain} />`
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
              onSort=${(/** @type {string} */ next) =>
                go(
                  "workers",
                  { ...query, sort: next === sort ? "" : next },
                  { replace: true },
                )} empty=${html`<${Empty}
                    title=${all.length ? t("workers.none_such") : t("workers.none")}
                    curl=${all.length ? undefined : "jqmaster worker tasks:worker"}>
                    ${
                      all.length
                        ? html`<a href=${href("workers")}>${t("filter.clear")}</a>`
                        : t("workers.none.text")
                    }
                  <//>`}
              columns=${[
                {
                  key: "state",
                  label: t("job.state"),
                  width: 11,
                  phone: "line",
                  render: (/** @type {WorkerView} */ worker) => html`<${RowState} worker=${worker} />`,
                },
                {
                  key: "host",
                  label: t("workers.host"),
                  phone: "main",
                  render: (/** @type {WorkerView} */ worker) =>
                    html`<a
                        href=${href("workers", { id: worker.id })}
                        title=${visible(`${nameOf(worker)}\n${worker.id}`)}>
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
                  render: (/** @type {WorkerView} */ worker) => html`<${Slots} worker=${worker} />`,
                },
                ...figureColumns().filter(({ key }) => key !== "marks"),
                {
                  key: "seen",
                  label: t("workers.seen"),
                  align: "end",
                  width: 7.4,
                  priority: 2,
                  phone: "side",
                  render: (/** @type {WorkerView} */ worker) => html`<${Time} at=${worker.last_seen_at} />`,
                },
                {
                  key: "version",
                  label: t("workers.version"),
                  width: 5.5,
                  priority: 3,
                  render: (/** @type {WorkerView} */ worker) =>
                    html`<span title=${visible(worker.version)}>${visible(worker.version) || "–"}</span>`,
                },
                {
                  key: "breaker",
                  label: t("workers.breaker"),
                  width: 6,
                  priority: 4,
                  render: (/** @type {WorkerView} */ worker) =>
                    html`<${Breaker} breaker=${worker.breaker} />`,
                },
                {
                  key: "names",
                  label: t("nav.names"),
                  priority: 5,
                  render: (/** @type {WorkerView} */ worker) =>
                    html`<span title=${visible(worker.names.join("\n"))}>${visible(worker.names.join(", "))}</span>`,
                },
                ...(onSlots ? [slotsColumn(onSlots)] : []),
              ]} />
          </div>`
    }`;
}

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

/** @param {WorkerView[]} workers Those that a drain concerns. */
const live = (workers) => workers.filter((worker) => worker.state === "fresh" || worker.state === "stale");

/**
 * @param {{chosen: WorkerView[], all: WorkerView[], filters: Record<string, string>, onDrain: NonNullable<OnDrain>}}
 *   props Drains what is selected, or else all that the filters leave.
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

/** @param {{id: string, session: import("../../core/api.js").Session}} props */
function One({ id, session }) {
  const path = /** @type {const} */ (`api/workers/${encodeURIComponent(id)}`);
  const {
    data: worker,
    problem,
    reload,
  } = useResource((signal) => get(path, {}, signal), [id], {
    events: ["workers", "jobs"],
    leastMs: 1000,
    pollMs: POLL_MS,
  });
  const [asked, setAsked] = useState(/** @type {"slots" | "detach" | null} */ (null));
  useTitle(worker && `${nameOf(worker)} · ${t("workers.one")}`);
  const back = html`<p class="crumbs"><a href=${href("workers")}>${t("nav.workers")}</a></p>`;
  if (worker === null) {
    return html`${back}<h1>${t("workers.one")}</h1>
      ${
        problem?.status === 404
          ? html`<${Empty} title=${t("workers.unknown")}>${t("workers.unknown.text")}<//>`
          : html`<${ErrorBox} problem=${problem} onRetry=${reload} />`
      }
      ${!problem && html`<${Loading} />`}`;
  }
  const mayOperate = may(session, "operate");
  const act = async (/** @type {"drain" | "resume" | "detach"} */ what) => {
    await post(`${path}/${what}`);
    await reload();
  };
  return html`${back}
    <div class="page-head job-head">
      <h1><${Text} value=${worker.node_id || t("workers.one")} max=${60} /></h1>
      <${WorkerState} worker=${worker} />
    </div>
    <p class="job-id"><code>${visible(worker.id)}</code></p>
    <${ErrorBox} problem=${problem} />
    ${
      mayOperate &&
      html`<div class="row actions" role="group" aria-label=${t("job.actions")}>
      ${
        worker.state === "draining"
          ? html`<${Button} kind="primary" onClick=${() => attempt(() => act("resume"), t("workers.resumed"))}>${t("workers.resume")}<//>`
          : worker.state !== "detached" &&
            html`<${Button} onClick=${() => attempt(() => act("drain"), t("workers.drained"))}>${t("workers.drain")}<//>`
      }
      ${worker.state !== "detached" && html`<${Button} opensDialog onClick=${() => setAsked("slots")}>${t("workers.slots.change")}<//>`}
      ${worker.state !== "detached" && html`<${Button} opensDialog kind="danger" onClick=${() => setAsked("detach")}>${t("workers.detach")}<//>`}</div>`
    }
    <div class="job-grid">
      <section class="card">
        <h2>${t("job.facts")}</h2>
        <dl class="facts">
          <dt>${t("workers.slots")}</dt>
          <dd>
            <${Slots} worker=${worker} />
            ${
              worker.own_max_jobs !== undefined &&
              worker.own_max_jobs !== worker.max_jobs &&
              html` <span class="muted">${t("workers.slots.own", { count: worker.own_max_jobs })}</span>`
            }
          </dd>
          <dt>${t("workers.seen")}</dt><dd><${Time} at=${worker.last_seen_at} /></dd>
          <dt>${t("workers.registered")}</dt><dd><${Time} at=${worker.registered_at} /></dd>
          <dt>${t("workers.breaker")}</dt><dd><${Breaker} breaker=${worker.breaker} /></dd>
          <dt>${t("workers.role")}</dt><dd>${tOr(`workers.role.${worker.role}`, visible(worker.role))}</dd>
          <dt>${t("workers.address")}</dt><dd>${worker.url ? html`<${Text} value=${worker.url} />` : "–"}</dd>
          <dt>${t("workers.host")}</dt>
          <dd>
            <${Text} value=${worker.node_id || "–"} /> ${
              worker.pid > 0 &&
              html`<span class="muted">${t("master.pid", { pid: String(worker.pid) })}</span>`
            }
          </dd>
          <dt>${t("workers.version")}</dt><dd><${Text} value=${worker.version || "–"} /></dd>
          ${Object.entries(worker.labels).map(
            ([key, value]) =>
              html`<dt><${Text} value=${key} max=${64} /></dt><dd><${Text} value=${value} max=${200} /></dd>`,
          )}
        </dl>
      </section>
      <${FigureFacts} figures=${worker.figures} />
      <section class="card">
        <h2>${t("nav.names")} <span class="muted num">${number(worker.names.length)}</span></h2>
        <p>
          ${worker.names
            .slice(0, 100)
            .map(
              (/** @type {string} */ name) =>
                html`<a class="chip" href=${href("jobs", { name })}><${Text} value=${name} max=${80} /></a> `,
            )}
        </p>
      </section>
    </div>
    <section class="after" aria-labelledby="held">
      <h2 id="held">${t("workers.jobs")} <span class="muted num">${number(worker.jobs.length)}</span></h2>
      <${Table}
        caption=${t("workers.jobs")} rows=${worker.jobs} rowKey=${(/** @type {HeldJob} */ job) => job.job_id}
        empty=${html`<${Empty} title=${t("workers.idle")} />`} columns=${[
          {
            key: "name",
            label: t("job.name"),
            render: (/** @type {HeldJob} */ job) =>
              html`<a href=${href("job", { id: job.job_id })}><${Text} value=${job.name} max=${80} /></a>`,
          },
          {
            key: "id",
            label: t("job.id"),
            render: (/** @type {HeldJob} */ job) =>
              html`<${Id} id=${job.job_id} href=${href("job", { id: job.job_id })} />`,
          },
          {
            key: "attempt",
            label: t("job.attempt"),
            align: "end",
            priority: 2,
            render: (/** @type {HeldJob} */ job) => html`<${Num} value=${job.attempt} />`,
          },
          {
            key: "since",
            label: t("job.since"),
            align: "end",
            render: (/** @type {HeldJob} */ job) => html`<${Time} at=${job.started_at} />`,
          },
        ]} />
    </section>
    ${
      asked === "slots" &&
      html`<${SlotsDialog} worker=${worker} what=${nameOf(worker)} onClose=${() => setAsked(null)} onDone=${reload} />`
    }
    ${
      asked === "detach" &&
      html`<${Detach} worker=${worker} onConfirm=${() => act("detach")} onClose=${() => setAsked(null)} />`
    }`;
}

/** @param {{worker: import("../../../answers").Schemas["WorkerDetail"], onConfirm: () => Promise<void>, onClose: () => void}} props */
function Detach({ worker, onConfirm, onClose }) {
  return html`<${ConfirmCount}
      title=${t("workers.detach.title")} count=${worker.jobs.length} isAlways verb=${t("workers.detach")}
      onConfirm=${onConfirm} onClose=${onClose}>
      <p>${t("workers.detach.text")}</p>
    <//>`;
}
