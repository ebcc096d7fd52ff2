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
// The number of failure groups that the master keeps. A split list shows all of them, without pages.
const ALL = 500;
/** @type {Record<string, Record<string, string>>} */
const SHOWN = { "": { open: "true" }, resolved: { resolved: "true" }, ignored: { ignored: "true" }, all: {} };
const SPLITS = ["name", "version"];

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
  const split = SPLITS.includes(query["split"] ?? "") ? query["split"] : "";
  const of = JSON.stringify([
    query["q"],
    query["name"],
    query["version"],
    query["assignee"],
    query["cursor"],
    show,
    split,
  ]);
  const [done, setDone] = useState(0);
  const found = useResource(
    async (signal) => ({
      ...(await get(
        "api/failures",
        {
          q: query["q"],
          name: query["name"],
          version: query["version"],
          ...SHOWN[show],
          assignee: query["assignee"],
          cursor: query["cursor"],
          limit: split ? ALL : PAGE,
        },
        signal,
      )),
      of,
    }),
    [of],
    { events: ["jobs"], leastMs: 2000, everyMs: 10_000 },
  );
  const { rows, newCount, showNew } = useSteadyRows(
    found.data?.groups ?? [],
    idOf,
    hold.isHeld || dialog !== null || asked !== null,
    `${found.data?.of} ${done}`,
  );
  const change = (/** @type {Record<string, string>} */ changes) =>
    go("failures", { ...query, cursor: "", ...changes }, { replace: true });
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
  // Exclude jobs that fail from now on, so that the count cannot grow before the action is confirmed.
  const act = (/** @type {"retry" | "delete"} */ action, /** @type {FailureGroup} */ group) =>
    setDialog({
      action,
      isRecounted: true,
      target: {
        filter: {
          state: "failed",
          failure_group: group.id,
          finished_before: new Date(nowMs()).toISOString(),
        },
      },
    });
  const card = (/** @type {FailureGroup} */ group, /** @type {number} */ count) =>
    html`<${FailureCard}
        key=${group.id} group=${group} count=${count} still=${still.get(group.id)} session=${session} onAct=${act}
        onAsk=${(
          /** @type {import("../failure_dialogs.js").Question} */ question,
          /** @type {FailureGroup} */ about,
        ) => setAsked({ question, group: about })}
        onChange=${reload} />`;
  const isFiltered = Boolean(query["q"] || query["name"] || query["version"] || query["assignee"]);
  return html`<div class="page-head"><h1>${t("nav.failures")}</h1></div>
    <${Tabs}
      label=${t("nav.failures")} current=${show} tabs=${Object.keys(SHOWN).map((key) => ({
        key,
        label: t(`failures.show.${key || "open"}`),
        href: href("failures", { ...query, cursor: "", show: key }),
      }))} />
    <form
      class="filters is-open" role="search" aria-label=${t("filters")}
      onSubmit=${(/** @type {Event} */ e) => e.preventDefault()}>
      <${FilterInput}
        label=${t("failures.contains")} value=${query["q"] ?? ""}
        onChange=${(/** @type {string} */ q) => change({ q })} />
      <${FilterInput}
        label=${t("filter.name")} value=${query["name"] ?? ""}
        onChange=${(/** @type {string} */ name) => change({ name })} />
      <${FilterInput}
        label=${t("failures.version")} value=${query["version"] ?? ""}
        onChange=${(/** @type {string} */ version) => change({ version })} />
      <${FilterInput}
        label=${t("failures.assignee")} value=${query["assignee"] ?? ""}
        onChange=${(/** @type {string} */ assignee) => change({ assignee })} />
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
    </nav>
    <${ErrorBox} problem=${found.problem} onRetry=${found.reload} />
    <div ...${hold.bind}>
      <${NewRows} count=${newCount} onShow=${showNew} />
      ${
        !found.data
          ? html`<${Loading} isLoading=${!found.problem} />`
          : rows.length === 0
            ? html`<div class="card">
                <${Empty}
                  title=${t(
                    isFiltered
                      ? "failures.empty.filtered"
                      : show === "ignored" || show === "resolved"
                        ? `failures.empty.${show}`
                        : "failures.empty",
                  )} />
              </div>`
            : split
              ? partsOf(rows, split).map(
                  (part) =>
                    html`<section class="after" key=${part.key}>
                        <h2>
                          <${Text} value=${part.key || t("failures.no_version")} max=${100} /> <span
                            class="muted">
                            <${Num} value=${part.count} /> ${t("failures.failed", { count: part.count })}
                          </span>
                        </h2>
                        <ul class="groups">${part.groups.map(([group, count]) => card(group, count))}</ul>
                      </section>`,
                )
              : html`<ul class="groups">${rows.map((group) => card(group, group.count))}</ul>`
      }
    </div>
    <p class="muted after">${t("failures.mark.new.rule")} ${t("failures.mark.regressed.rule")}</p>
    <${Pager}
      hasNext=${Boolean(found.data?.next_cursor)} hasBefore=${Boolean(query["cursor"])}
      isLoading=${found.isLoading}
      onNext=${() => go("failures", { ...query, cursor: found.data?.next_cursor })}
      onFirst=${() => change({})} />
    ${dialog && html`<${ActionDialog} ...${dialog} onClose=${() => setDialog(null)} onBegun=${() => {}} />`}
    ${
      asked &&
      html`<${FailureDialog} ...${asked} who=${session.who ?? ""} onClose=${() => setAsked(null)} onDone=${reload} />`
    }`;
}

/** @param {FailureGroup} group */
const idOf = (group) => group.id;

/**
 * Return the groups of each name, or of each version, most failures first. A group is under each version it was seen
 * on.
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
