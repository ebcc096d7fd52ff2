/** What failed for good, grouped by name, cause and message without what varies in it; a group is acted upon as a whole. */
import { html, useState } from "../lib.js";
import { get, may } from "../api.js";
import { ActionDialog, useActionEnds } from "../actions.js";
import { t, tOr } from "../i18n.js";
import { useResource } from "../live.js";
import { href } from "../router.js";
import { visible } from "../text.js";
import { Button, Empty, ErrorBox, Loading, Pager } from "../ui/controls.js";
import { Badge, Id, Num, Text, Time } from "../ui/formats.js";
import { FilterInput } from "../ui/filters.js";
import { NewRows, useHold, useSteadyRows } from "../ui/tables.js";

const PAGE = 50;

/** @param {{query: Record<string, string>, go: typeof import("../router.js").go, session: import("../api.js").Session}} props */
export function Page({ query, go, session }) {
  const [dialog, setDialog] = useState(/** @type {any} */ (null));
  const hold = useHold();
  const of = JSON.stringify([query["q"], query["name"], query["cursor"]]);
  const found = useResource(
    (signal) =>
      get(
        "api/failures",
        { q: query["q"], name: query["name"], cursor: query["cursor"], limit: PAGE },
        signal,
      ),
    [of],
    { events: ["jobs"], leastMs: 2000, everyMs: 10_000 },
  );
  const [shownOf, setShownOf] = useState(of);
  if (!found.isLoading && shownOf !== of) setShownOf(of);
  const { rows, newCount, showNew } = useSteadyRows(
    found.data?.groups ?? [],
    idOf,
    hold.isHeld || dialog !== null,
    shownOf,
  );
  const change = (/** @type {Record<string, string>} */ changes) =>
    go("failures", { ...query, cursor: "", ...changes }, { replace: true });
  useActionEnds(() => void found.reload());
  const mayOperate = may(session, "operate");
  const act = (/** @type {any} */ action, /** @type {any} */ group) =>
    setDialog({ action, target: { filter: { state: "failed", failure_group: group.id } } });
  return html`<div class="page-head"><h1>${t("nav.failures")}</h1></div>
    <form class="filters is-open" role="search" aria-label=${t("filters")} onSubmit=${(/** @type {Event} */ e) => e.preventDefault()}>
      <${FilterInput} label=${t("failures.contains")} value=${query["q"] ?? ""} onChange=${(/** @type {string} */ q) => change({ q })} />
      <${FilterInput} label=${t("filter.name")} value=${query["name"] ?? ""} onChange=${(/** @type {string} */ name) => change({ name })} /></form>
    <${ErrorBox} problem=${found.problem} onRetry=${found.reload} />
    <div ...${hold.bind}><${NewRows} count=${newCount} onShow=${showNew} />
    ${
      !found.data
        ? html`<${Loading} isLoading=${!found.problem} />`
        : rows.length === 0
          ? html`<div class="card"><${Empty} title=${t(query["q"] || query["name"] ? "failures.empty.filtered" : "failures.empty")} /></div>`
          : html`<ul class="groups">${rows.map(
              (
                group,
              ) => html`<li key=${group.id} class="card group"><div class="group-count"><b><${Num} value=${group.count} /></b><span class="muted">${t("failures.failed", { count: group.count })}</span></div>
        <div class="group-body"><p class="row"><a href=${href("names", { name: group.name })}><strong><${Text} value=${group.name} max=${100} /></strong></a> <${Badge} kind="bad">${tOr(`cause.${group.cause}`, visible(group.cause))}<//></p>
          ${group.message_hidden ? html`<p class="muted">${group.error_type && html`<code><${Text} value=${group.error_type} max=${200} /></code> · `}${t("job.error_hidden")}</p>` : html`<pre class="message"><${Text} value=${group.message || t("failures.silent")} max=${600} isBlock /></pre>`}
          <p class="muted">${t("failures.last")} <${Time} at=${group.last_seen_at} /> · ${t("failures.first")} <${Time} at=${group.first_seen_at} /> · ${t("failures.example")} <${Id} id=${group.example_job_id} href=${href("job", { id: group.example_job_id })} /></p>
          <p class="row"><a class="button small as-link" href=${href("jobs", group.message_hidden && !mayOperate ? { state: "failed", name: group.name, cause: group.cause } : { state: "failed", failure_group: group.id })}>${t("failures.jobs")}</a>
            ${mayOperate && html`<${Button} opensDialog class="small" onClick=${() => act("retry", group)}>${t("action.retry")}<//><${Button} opensDialog class="small" kind="danger" onClick=${() => act("delete", group)}>${t("action.delete")}<//>`}</p></div></li>`,
            )}</ul>`
    }</div>
    <${Pager} hasNext=${Boolean(found.data?.next_cursor)} hasBefore=${Boolean(query["cursor"])} isLoading=${found.isLoading} onNext=${() => go("failures", { ...query, cursor: found.data?.next_cursor })} onFirst=${() => change({})} />
    ${dialog && html`<${ActionDialog} ...${dialog} onClose=${() => setDialog(null)} onBegun=${() => {}} />`}`;
}

/** @param {any} group */
const idOf = (group) => group.id;
