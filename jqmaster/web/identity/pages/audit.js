/** The audit log: who changed what, and when. The newest change is first. Each has the values before and after. */
import { html } from "../../core/lib.js";
import { get, may } from "../../core/api.js";
import { t, tOr } from "../../core/i18n.js";
import { useResource } from "../../core/resource.js";
import { href } from "../../core/router.js";
import { visible } from "../../core/text.js";
import { Button, Empty, ErrorBox, Loading, Pager } from "../../ui/controls.js";
import { Time } from "../../ui/formats.js";
import { FilterInput, FilterInstant } from "../../ui/filters.js";
import { ChangedValue, Difference } from "../differences.js";
import { isMap, whoText } from "../value_words.js";

/** @typedef {import("../../../answers").Schemas["AuditEntryView"]} Entry */
/** @typedef {import("../../../answers").Schemas["AuditPage"]} AuditPage */

const PAGE = 50;
// Maximum number of pages to read until a page has entries. This number of pages reaches the end of both logs.
const MAX_EMPTY_PAGES = 10;
const FILTERS = ["target", "who", "since", "until"];
/** @param {{query: Record<string, string>, go: typeof import("../../core/router.js").go, session: import("../../core/api.js").Session}} props */
export function Page({ query, go, session }) {
  if (!may(session, "operate"))
    return html`<h1>${t("nav.audit")}</h1><${Empty} title=${t("audit.forbidden")} />`;
  return html`<${Entries} query=${query} go=${go} />`;
}

/**
 * Return the next page with entries. The API may first answer empty pages if the wanted entry is rare.
 * @param {import("../../core/api.js").Query} query
 * @param {AbortSignal} signal
 * @returns {Promise<AuditPage>}
 */
async function firstWithEntries(query, signal) {
  let page = await get("api/audit", query, signal);
  for (let n = 1; n < MAX_EMPTY_PAGES && page.next_cursor && page.entries.length === 0; n++)
    page = await get("api/audit", { ...query, cursor: page.next_cursor }, signal);
  return page;
}

/** @param {{query: Record<string, string>, go: typeof import("../../core/router.js").go}} props */
function Entries({ query, go }) {
  const target = query["target"] ?? "";
  const cursor = query["cursor"] ?? "";
  const wanted = Object.fromEntries(FILTERS.flatMap((key) => (query[key] ? [[key, query[key]]] : [])));
  const isFiltered = Object.keys(wanted).length > 0;
  const { data, problem, reload } = useResource(
    (signal) => firstWithEntries({ ...wanted, cursor, limit: PAGE }, signal),
    [JSON.stringify(wanted), cursor],
    { everyMs: 60_000 },
  );
  const change = (/** @type {string} */ key) => (/** @type {string} */ text) =>
    go("audit", { ...wanted, [key]: text }, { replace: true });
  const entries = data?.entries ?? [];
  return html`<div class="page-head">
      <h1>${t("nav.audit")}</h1><${Button} onClick=${reload}>${t("audit.reload")}<//>
    </div>
    <form class="filters is-open" role="search" onSubmit=${(/** @type {Event} */ e) => e.preventDefault()}>
      <${FilterInput}
        label=${t("audit.target")} placeholder=${t("audit.target.hint")} maxlength="300" value=${target}
        onChange=${change("target")} />
      <${FilterInput}
        label=${t("audit.who")} placeholder=${t("audit.who.hint")} maxlength="200" value=${query["who"] ?? ""}
        onChange=${change("who")} />
      <${FilterInstant} label=${t("audit.since")} value=${query["since"] ?? ""} onChange=${change("since")} />
      <${FilterInstant} label=${t("audit.until")} value=${query["until"] ?? ""} onChange=${change("until")} />
      ${isFiltered && html`<div class="chips"><a href=${href("audit")}>${t("filter.clear")}</a></div>`}
    </form>
    <${ErrorBox} problem=${problem} onRetry=${reload} />
    ${
      data === null
        ? !problem && html`<${Loading} />`
        : entries.length === 0
          ? html`<${Empty} title=${data.next_cursor ? t("jobs.empty.so_far") : isFiltered ? t("audit.none_such") : t("audit.none")} />`
          : html`<ol class="audit" aria-label=${t("nav.audit")}>
              ${entries.map(
                (entry) => html`<li key=${entry.id} class="card entry">
                    <p class="row entry-head">
                      <span class="entry-what">
                        <strong title=${visible(entry.action)}>
                          ${tOr(`act.${entry.action}`, visible(entry.action))}
                        </strong> <a
                          class="entry-target" href=${href("audit", { ...wanted, target: entry.target })}
                          title=${`${t("audit.only")}\n${visible(entry.target)}`}>
                          ${visible(whoText(entry.target))}
                        </a>
                      </span> <span class="muted">
                        ${t("audit.by")} <a
                          href=${href("audit", { ...wanted, who: entry.who })}
                          title=${`${t("audit.only_who")}\n${visible(entry.who)}`}>
                          ${visible(whoText(entry.who))}
                        </a>
                      </span>
                      ${
                        entry.times > 1 &&
                        html` <span class="muted">${t("audit.times", { n: entry.times })}</span>`
                      }
                      <span class="entry-at muted"><${Time} at=${entry.at} isPast /></span>
                    </p>
                    <${ChangedValue} entry=${entry} /><${Difference} ...${changeOf(entry)} />
                  </li>`,
              )}
            </ol>`
    }
    <${Pager}
      hasNext=${Boolean(data?.next_cursor)} hasBefore=${cursor !== ""}
      onNext=${() => go("audit", { ...wanted, cursor: data?.next_cursor })}
      onFirst=${() => go("audit", wanted)} />`;
}

/**
 * @param {Entry} entry
 * @returns {{before: unknown, after: unknown}} The values before and after. The entry for the end of a bulk action has
 *   the filter only before, but nobody removed it.
 */
const changeOf = ({ action, before, after }) =>
  action.endsWith(".ended") && isMap(before) && isMap(after)
    ? { before: null, after: { ...before, ...after } }
    : { before, after };
