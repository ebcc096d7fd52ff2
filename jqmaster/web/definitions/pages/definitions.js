/**
 * The definitions, which start jobs by schedule or by event: when each is due, and its last outcomes. People create,
 * change, pause and run definitions here.
 */
import { html, useState } from "../../core/lib.js";
import { get, may } from "../../core/api.js";
import { DefinitionDialogs, RowActions } from "../dialogs.js";
import { DefinitionEditor } from "../editor.js";
import { Definition } from "../definition_page.js";
import { Lateness, Outcome, RunStrip, STRIP, Unserved } from "../runs.js";
import { startText } from "../schedules.js";
import { curl } from "../../core/curl.js";
import { t } from "../../core/i18n.js";
import { useResource } from "../../core/resource.js";
import { href } from "../../core/router.js";
import { visible } from "../../core/text.js";
import { Button, Empty, ErrorBox, Loading, Pager } from "../../ui/controls.js";
import { FilterChoice, FilterInput } from "../../ui/filters.js";
import { Badge, Num, Time } from "../../ui/formats.js";
import { Table, useHold, useSteadyRows } from "../../ui/tables.js";
import { useServed } from "../../workers/served.js";

/** @typedef {import("../../../answers").Schemas["DefinitionView"]} DefinitionView */

const PAGE = 25;
const STATES = ["", "enabled", "paused", "troubled"];
const KINDS = ["", "time", "event"];
const EXAMPLE = {
  job: { name: "report.send", argument: { kind: "daily" } },
  schedule: { daily_at: "02:30" },
  time_zone: "Asia/Tokyo",
};

/** @param {{query: Record<string, string>, go: typeof import("../../core/router.js").go, session: import("../../core/api.js").Session}} props */
export function Page({ query, go, session }) {
  return html`${
    query["name"]
      ? html`<${Definition} key=${query["name"]} name=${query["name"]} query=${query} go=${go} session=${session} />`
      : html`<${List} query=${query} go=${go} session=${session} />`
  }<${DefinitionDialogs} />`;
}

/** @param {DefinitionView} one */
const nameOf = (one) => one.name;

/** @param {{query: Record<string, string>, go: typeof import("../../core/router.js").go, session: import("../../core/api.js").Session}} props */
function List({ query, go, session }) {
  const hold = useHold();
  const [isMaking, setMaking] = useState(false);
  const state = STATES.includes(query["state"] ?? "") ? query["state"] : "";
  const kind = KINDS.includes(query["kind"] ?? "") ? query["kind"] : "";
  const of = JSON.stringify([query["q"], state, kind, query["cursor"]]);
  const found = useResource(
    async (signal) => {
      const wanted = { q: query["q"], state, kind, cursor: query["cursor"], runs: STRIP, limit: PAGE };
      return { ...(await get("api/definitions", wanted, signal)), of };
    },
    [of],
    { events: ["definitions", "events", "jobs"], leastMs: 2000, everyMs: 5000 },
  );
  const { rows } = useSteadyRows(found.data?.definitions ?? [], nameOf, hold.isHeld, found.data?.of ?? "");
  const served = useServed();
  const mayOperate = may(session, "operate");
  const change = (/** @type {Record<string, string>} */ changes, replace = false) =>
    go("definitions", { ...query, cursor: "", ...changes }, { replace });
  const isFiltered = Boolean(query["q"] || state || kind);
  return html`<div class="page-head">
      <h1>${t("nav.definitions")}</h1>
      ${
        mayOperate &&
        html`<${Button} opensDialog class="small" kind="primary" onClick=${() => setMaking(true)}>${t("definitions.make")}<//>`
      }
    </div>
    <form
      class="filters is-open" role="search" aria-label=${t("filters")}
      onSubmit=${(/** @type {Event} */ e) => e.preventDefault()}>
      <${FilterInput}
        label=${t("names.contains")} value=${query["q"] ?? ""}
        onChange=${(/** @type {string} */ q) => change({ q }, true)} />
      <${FilterChoice}
        label=${t("job.state")} value=${state}
        options=${STATES.map((one) => [one, t(`definitions.state.${one || "all"}`)])}
        onChange=${(/** @type {string} */ one) => change({ state: one })} />
      <${FilterChoice}
        label=${t("definitions.form.kind")} value=${kind}
        options=${KINDS.map((one) => [one, t(`definitions.kind_of.${one || "all"}`)])}
        onChange=${(/** @type {string} */ one) => change({ kind: one })} />
    </form>
    <${ErrorBox} problem=${found.problem} onRetry=${found.reload} />
    ${
      !found.data
        ? html`<${Loading} isLoading=${!found.problem} />`
        : html`<div ...${hold.bind}>
            <${Table}
              isFixed caption=${t("nav.definitions")} rows=${rows} rowKey=${nameOf} label=${nameOf}
              onOpen=${(/** @type {DefinitionView} */ one) => go("definitions", { name: one.name })}
              columns=${[...columnsOf(served), ...(mayOperate ? [actions(found.reload)] : [])]}
              empty=${html`<${NoDefinitions} isFiltered=${isFiltered} session=${session} />`} />
          </div>`
    }
    <${Pager}
      hasNext=${Boolean(found.data?.next_cursor)} hasBefore=${Boolean(query["cursor"])}
      isLoading=${found.isLoading}
      onNext=${() => go("definitions", { ...query, cursor: found.data?.next_cursor })}
      onFirst=${() => change({})} />
    ${
      isMaking &&
      html`<${DefinitionEditor} definition=${null} onClose=${() => setMaking(false)} onDone=${(/** @type {string} */ name) => go("definitions", { name })} />`
    }`;
}

/** @param {{isFiltered: boolean, session: import("../../core/api.js").Session}} props */
function NoDefinitions({ isFiltered, session }) {
  const example = { curl: curl(session, "PUT", "api/definitions/nightly-report", { body: EXAMPLE }) };
  return html`<div class="card">
      <${Empty}
        title=${t(isFiltered ? "definitions.empty.filtered" : "definitions.empty")}
        ...${!isFiltered && example} />
    </div>`;
}

/** @type {(import("../../ui/tables.js").Column<DefinitionView> & {label: string})[]} */
const COLUMNS = [
  {
    key: "name",
    label: "job.name",
    phone: "main",
    width: 11,
    render: (one) =>
      html`<a href=${href("definitions", { name: one.name })} title=${visible(one.name)}>${visible(one.name)}</a>`,
  },
  {
    key: "schedule",
    label: "definitions.schedule",
    priority: 2,
    phone: "line",
    render: (one) => {
      const text = startText(one);
      return html`<span title=${text}>${text}</span>`;
    },
  },
  {
    key: "next",
    label: "definitions.next_due",
    width: 8.5,
    phone: "side",
    render: (one) =>
      !one.enabled
        ? html`<${Badge} kind="warn">${t("enqueue.paused")}<//>`
        : one.next_due_at
          ? html`<${Time} at=${one.next_due_at} />`
          : html`<${Num} value=${null} />`,
  },
  {
    key: "last",
    label: "definitions.last_run",
    width: 7.5,
    priority: 2,
    render: (one) => html`<${Time} at=${one.last_run?.due_at} />`,
  },
  {
    key: "outcome",
    label: "definitions.outcome",
    width: 9.5,
    priority: 4,
    render: (one) =>
      one.last_run ? html`<${Outcome} run=${one.last_run} />` : html`<${Num} value=${null} />`,
  },
  {
    key: "late",
    label: "definitions.lateness",
    align: "end",
    width: 5.2,
    priority: 3,
    render: (one) => html`<${Lateness} run=${one.last_run} />`,
  },
  {
    key: "runs",
    label: "definitions.last_runs",
    width: 12.5,
    priority: 2,
    render: (one) => html`<${RunStrip} runs=${one.runs ?? []} />`,
  },
];

/** @param {Set<string> | null} served */
const columnsOf = (served) =>
  COLUMNS.map((column) => ({
    ...column,
    label: t(column.label),
    ...(column.key === "schedule" && {
      render: (/** @type {DefinitionView} */ one) =>
        html`${column.render(one)}<${Unserved} name=${one.job.name} runs=${one.runs ?? []} served=${served} class="block" />`,
    }),
  }));

/** @param {() => unknown} onDone @returns {import("../../ui/tables.js").Column<DefinitionView>} */
const actions = (onDone) => ({
  key: "act",
  label: html`<span class="sr">${t("job.actions")}</span>`,
  width: 5,
  phone: "side",
  render: (one) => html`<${RowActions} one=${one} onDone=${onDone} />`,
});
