/** Jobs that failed for good, grouped by name, cause and place in the code. Actions apply per group. */
import { html, useState } from "../../core/lib.js";
import { get } from "../../core/api.js";
import { ActionDialog, useActionEnds } from "../actions.js";
import { FailureDialog } from "../failure_dialogs.js";
import { FailureCard } from "../failure_groups.js";
import { useStillFailed } from "../still_failed.js";
import { t } from "../../core/i18n.js";
import { useResource } from "../../core/resource.js";
import { href } from "../../core/router.js";
import { Empty, ErrorBox, Loading, Pager, Tabs } from "../../ui/controls.js";
import { Num, Text, nowMs } from "../../ui/formats.js";
import { FilterInput } from "../../ui/filters.js";
import { NewRows, useHold, useSteadyRows } from "../../ui/tables.js";

/** @typedef {import("../../../answers").Schemas["FailureVersion"]} FailureVersion */

/** @typedef {import("../../../answers").Schemas["FailureGroup"]} FailureGroup */

const PAGE = 50;
// The number of failure groups that the master keeps. A split list shows all groups, without pages.
const ALL = 500;
/** @type {Record<string, Record<string, string>>} */
const SHOWN = { "": { open: "true" }, resolved: { resolved: "true" }, ignored: { ignored: "true" }, all: {} };
const SPLITS = ["name", "version"];
/** The filters with text inputs, and their labels. */
const TYPED = /** @type {const} */ ([
  ["q", "failures.contains"],
  ["name", "filter.name"],
  ["version", "failures.version"],
  ["assignee", "failures.assignee"],
]);

/** @param {{query: Record<string, string>, go: typeof import("../../core/router.js").go, session: import("../../core/api.js").Session}} props */
export function Page({ query, go, session }) {
  const [dialog, setDialog] = useState(
    /** @type {{action: import("../actions.js").ActionName, isRecounted: boolean, target: import("../actions.js").Target} | null} */ (
      null
    ),
  );
  const [asked, setAsked] = useState(/** @type {import("../failure_dialogs.js").Asked | null} */ (null));
  const hold = useHold();
  const show = query["show"] && query["show"] in SHOWN ? query["show"] : "";
  const split = SPLITS.includes(query["split"] ?? "") ? (query["split"] ?? "") : "";
  const found = useFailures(query, show, split);
  const [done, setDone] = useState(0);
  const { rows, newCount, showNew } = useSteadyRows(
    found.data?.groups ?? [],
    idOf,
    hold.isHeld || dialog !== null || asked !== null,
    `${found.data?.of} ${done}`,
  );
  // Show the effect of the user's own action at once, even if the pointer is over the list.
  const reload = async () => {
    await found.reload();
    setDone((/** @type {number} */ n) => n + 1);
  };
  const { still, reload: recount } = useStillFailed(rows, done);
  useActionEnds(() => {
    void found.reload();
    void recount();
  });
  /** @type {import("../failure_groups.js").Shown["onAct"]} */
  const act = (action, group) => setDialog({ action, isRecounted: true, target: failedUntilNow(group) });
  /** @type {import("../failure_groups.js").Shown["onAsk"]} */
  const ask = (question, group) => setAsked({ question, group });
  const card = (/** @type {FailureGroup} */ group, /** @type {number} */ count) =>
    html`<${FailureCard}
        key=${group.id} group=${group} count=${count} still=${still.get(group.id)} session=${session}
        onAct=${act} onAsk=${ask} onChange=${reload} />`;
  const isFiltered = TYPED.some(([key]) => query[key]);
  return html`<div class="page-head"><h1>${t("nav.failures")}</h1></div>
    <${Choices} query=${query} show=${show} split=${split} go=${go} />
    <${ErrorBox} problem=${found.problem} onRetry=${found.reload} />
    <div ...${hold.bind}>
      <${NewRows} count=${newCount} onShow=${showNew} />
      ${
        !found.data
          ? html`<${Loading} isLoading=${!found.problem} />`
          : rows.length === 0
            ? html`<div class="card"><${Empty} title=${emptyText(isFiltered, show)} /></div>`
            : split
              ? html`<${Parts} parts=${partsOf(rows, split)} card=${card} />`
              : html`<ul class="groups">${rows.map((group) => card(group, group.count))}</ul>`
      }
    </div>
    <p class="muted after">${t("failures.mark.new.rule")} ${t("failures.mark.regressed.rule")}</p>
    <${Pager}
      hasNext=${Boolean(found.data?.next_cursor)} hasBefore=${Boolean(query["cursor"])}
      isLoading=${found.isLoading}
      onNext=${() => go("failures", { ...query, cursor: found.data?.next_cursor })}
      onFirst=${() => go("failures", { ...query, cursor: "" }, { replace: true })} />
    ${dialog && html`<${ActionDialog} ...${dialog} onClose=${() => setDialog(null)} onBegun=${() => {}} />`}
    ${
      asked &&
      html`<${FailureDialog} ...${asked} who=${session.who ?? ""} onClose=${() => setAsked(null)} onDone=${reload} />`
    }`;
}

/**
 * @param {Record<string, string>} query
 * @param {string} show
 * @param {string} split
 */
function useFailures(query, show, split) {
  const { q, name, version, assignee, cursor } = query;
  const of = JSON.stringify([q, name, version, assignee, cursor, show, split]);
  const wanted = { q, name, version, ...SHOWN[show], assignee, cursor, limit: split ? ALL : PAGE };
  return useResource(async (signal) => ({ ...(await get("api/failures", wanted, signal)), of }), [of], {
    events: ["jobs"],
    leastMs: 2000,
    everyMs: 10_000,
  });
}

/**
 * @param {FailureGroup} group
 * @returns {import("../actions.js").Target} The jobs of the group that have failed until now. Later failures are left
 *   out, so that the count cannot grow before the action is confirmed.
 */
const failedUntilNow = ({ id }) => ({
  filter: { state: "failed", failure_group: id, finished_before: new Date(nowMs()).toISOString() },
});

/** @param {boolean} isFiltered @param {string} show */
const emptyText = (isFiltered, show) =>
  t(
    isFiltered
      ? "failures.empty.filtered"
      : show === "ignored" || show === "resolved"
        ? `failures.empty.${show}`
        : "failures.empty",
  );

/**
 * The controls for the shown groups, and for how the list is split.
 * @param {{query: Record<string, string>, show: string, split: string, go: typeof import("../../core/router.js").go}} props
 */
function Choices({ query, show, split, go }) {
  return html`<${Tabs}
      label=${t("nav.failures")} current=${show} tabs=${Object.keys(SHOWN).map((key) => ({
        key,
        label: t(`failures.show.${key || "open"}`),
        href: href("failures", { ...query, cursor: "", show: key }),
      }))} />
    <form
      class="filters is-open" role="search" aria-label=${t("filters")}
      onSubmit=${(/** @type {Event} */ e) => e.preventDefault()}>
      ${TYPED.map(
        ([key, label]) =>
          html`<${FilterInput}
              key=${key} label=${t(label)} value=${query[key] ?? ""}
              onChange=${(/** @type {string} */ text) =>
                go("failures", { ...query, cursor: "", [key]: text }, { replace: true })} />`,
      )}
    </form>
    <nav class="row group-by" aria-label=${t("failures.split")}>
      <span class="muted">${t("failures.split")}</span>
      ${["", ...SPLITS].map(
        (key) =>
          html`<a
              class="chip-link" href=${href("failures", { ...query, cursor: "", split: key })}
              aria-current=${key === split ? "page" : undefined}>
              ${t(`failures.split.${key || "none"}`)}
            </a>`,
      )}
    </nav>`;
}

/**
 * @param {{parts: ReturnType<typeof partsOf>, card: (group: FailureGroup, count: number) => import("../../core/lib.js").Node}} props
 */
function Parts({ parts, card }) {
  return parts.map(
    (part) =>
      html`<section class="after" key=${part.key}>
          <h2>
            <${Text} value=${part.key || t("failures.no_version")} max=${100} /> <span class="muted">
              <${Num} value=${part.count} /> ${t("failures.failed", { count: part.count })}
            </span>
          </h2>
          <ul class="groups">${part.groups.map(([group, count]) => card(group, count))}</ul>
        </section>`,
  );
}

/** @param {FailureGroup} group */
const idOf = (group) => group.id;

/**
 * Return the groups of each name, or of each version, most failures first. A group appears under each version that it
 * was seen on.
 * @param {FailureGroup[]} groups
 * @param {string} split "name" or "version".
 * @returns {{key: string, count: number, groups: [FailureGroup, number][]}[]}
 */
export function partsOf(groups, split) {
  /** @type {Map<string, {key: string, count: number, groups: [FailureGroup, number][]}>} */
  const parts = new Map();
  for (const group of groups) {
    /** @type {[string, number][]} */
    const of =
      split === "name"
        ? [[group.name, group.count]]
        : group.versions?.length
          ? group.versions.map((seen) => [seen.version, seen.count])
          : [["", group.count]];
    for (const [key, count] of of) {
      const part = parts.get(key) ?? { key, count: 0, groups: [] };
      part.count += count;
      part.groups.push([group, count]);
      parts.set(key, part);
    }
  }
  return [...parts.values()].sort((a, b) => b.count - a.count || a.key.localeCompare(b.key));
}
