/** The audit log: who changed what, and when. The newest is first, each with the values before and after. */
import { html } from "../lib.js";
import { get, may, toJson } from "../api.js";
import { t, tOr } from "../i18n.js";
import { useResource } from "../live.js";
import { href } from "../router.js";
import { visible } from "../text.js";
import { Button, Empty, ErrorBox, Loading, Pager } from "../ui/controls.js";
import { Text, Time } from "../ui/formats.js";
import { FilterInput, FilterInstant } from "../ui/filters.js";
import { isDefault, isMap, keyWords, shortId, whoText, wordsOf } from "../value_words.js";

const PAGE = 50;
// Searches of this many pages reach the end of both logs.
const MAX_EMPTY_PAGES = 10;
const FILTERS = ["target", "who", "since", "until"];
/** @param {{query: Record<string, string>, go: typeof import("../router.js").go, session: import("../api.js").Session}} props */
export function Page({ query, go, session }) {
  if (!may(session, "operate"))
    return html`<h1>${t("nav.audit")}</h1><${Empty} title=${t("audit.forbidden")} />`;
  return html`<${Entries} query=${query} go=${go} />`;
}

/**
 * Return the next page with entries. A search for a rare entry may answer empty pages first.
 * @param {Record<string, any>} query
 * @param {AbortSignal} signal
 * @returns {Promise<any>}
 */
async function firstWithEntries(query, signal) {
  let page = await get("api/audit", query, signal);
  for (let n = 1; n < MAX_EMPTY_PAGES && page.next_cursor && page.entries.length === 0; n++)
    page = await get("api/audit", { ...query, cursor: page.next_cursor }, signal);
  return page;
}

/** @param {{query: Record<string, string>, go: typeof import("../router.js").go}} props */
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
  const entries = /** @type {any[]} */ (data?.entries ?? []);
  return html`<div class="page-head"><h1>${t("nav.audit")}</h1><${Button} onClick=${reload}>${t("audit.reload")}<//></div>
    <form class="filters is-open" role="search" onSubmit=${(/** @type {Event} */ e) => e.preventDefault()}>
      <${FilterInput} label=${t("audit.target")} placeholder=${t("audit.target.hint")} maxlength="300" value=${target} onChange=${change("target")} />
      <${FilterInput} label=${t("audit.who")} placeholder=${t("audit.who.hint")} maxlength="200" value=${query["who"] ?? ""} onChange=${change("who")} />
      <${FilterInstant} label=${t("audit.since")} value=${query["since"] ?? ""} onChange=${change("since")} />
      <${FilterInstant} label=${t("audit.until")} value=${query["until"] ?? ""} onChange=${change("until")} />
      ${isFiltered && html`<div class="chips"><a href=${href("audit")}>${t("filter.clear")}</a></div>`}</form>
    <${ErrorBox} problem=${problem} onRetry=${reload} />
    ${
      data === null
        ? !problem && html`<${Loading} />`
        : entries.length === 0
          ? html`<${Empty} title=${data.next_cursor ? t("jobs.empty.so_far") : isFiltered ? t("audit.none_such") : t("audit.none")} />`
          : html`<ol class="audit" aria-label=${t("nav.audit")}>${entries.map(
              (entry) => html`<li key=${entry.id} class="card entry">
        <p class="row entry-head"><span class="entry-what"><strong title=${visible(entry.action)}>${tOr(`act.${entry.action}`, visible(entry.action))}</strong> <a class="entry-target" href=${href("audit", { ...wanted, target: entry.target })} title=${`${t("audit.only")}\n${visible(entry.target)}`}>${visible(shortId(entry.target))}</a></span> <span class="muted">${t("audit.by")} <a href=${href("audit", { ...wanted, who: entry.who })} title=${`${t("audit.only_who")}\n${visible(entry.who)}`}>${visible(whoText(entry.who))}</a></span>${entry.times > 1 && html` <span class="muted">${t("audit.times", { n: entry.times })}</span>`}<span class="entry-at muted"><${Time} at=${entry.at} /></span></p>
        <${ChangedValue} entry=${entry} /><${Difference} ...${changeOf(entry)} /></li>`,
            )}</ol>`
    }
    <${Pager} hasNext=${Boolean(data?.next_cursor)} hasBefore=${cursor !== ""} onNext=${() => go("audit", { ...wanted, cursor: data?.next_cursor })} onFirst=${() => go("audit", wanted)} />`;
}

/**
 * Return the differences between two values, member by member if both are maps.
 * @param {any} before
 * @param {any} after
 * @returns {{key: string, before: any, after: any}[]} `undefined` where there was, or is, none.
 */
export function differences(before, after) {
  if (!isMap(before) && !isMap(after))
    return toJson(before) === toJson(after)
      ? []
      : [{ key: "", before: before ?? undefined, after: after ?? undefined }];
  const was = isMap(before) ? before : {};
  const is = isMap(after) ? after : {};
  return [...new Set([...Object.keys(was), ...Object.keys(is)])]
    .filter((key) => toJson(was[key] ?? null) !== toJson(is[key] ?? null))
    .map((key) => ({ key, before: was[key], after: is[key] }));
}

/**
 * @param {any} entry
 * @returns {{before: any, after: any}} The values before and after. The end of an action on many jobs names its filter,
 *   which nobody removed.
 */
const changeOf = ({ action, before, after }) =>
  action.endsWith(".ended") && isMap(before) && isMap(after)
    ? { before: null, after: { ...before, ...after } }
    : { before, after };

/**
 * @param {{entry: any}} props
 *   Says which value of a key, or which worker, was changed. It stayed the same, so the differences lack it.
 */
export function ChangedValue({ entry }) {
  const document = entry.after ?? entry.before;
  const what = document && changedText(entry.action, document);
  return what ? html`<p><code><${Text} value=${what} max=${200} /></code></p>` : null;
}

/** @param {string} action @param {any} document @returns {string} */
function changedText(action, document) {
  if (action === "constraint.value" && "value" in document) {
    const value =
      typeof document.value === "string" ? JSON.stringify(document.value) : toJson(document.value);
    return `${document.key ?? t("audit.value")} = ${value}`;
  }
  if (action.startsWith("worker.") && document.node_id)
    return [document.node_id, document.pid && t("master.pid", { pid: String(document.pid) }), document.url]
      .filter(Boolean)
      .join(" · ");
  return "";
}

/** @param {{before: any, after: any}} props */
export function Difference({ before, after }) {
  // A new document has defaults, which say nothing.
  const isMade = before === null || before === undefined;
  const rows = differences(before, after).filter(
    (row) => !isMade || row.key === "enabled" || !isDefault(row.after),
  );
  if (rows.length === 0) return null;
  const cell = (/** @type {string} */ key, /** @type {any} */ value, /** @type {"was" | "is"} */ kind) => {
    if (value === undefined || value === null) return "";
    const words = html`<${Text} value=${wordsOf(key, value)} max=${400} />`;
    // A new document replaces nothing.
    if (isMade) return words;
    return html`<span class=${`diff ${kind}`}><span aria-hidden="true">${kind === "was" ? "−" : "+"}</span><span class="sr">${t(`audit.${kind}`)}</span> ${words}</span>`;
  };
  return html`<dl class="facts changes">${rows.slice(0, 100).map((row) => html`<dt title=${visible(row.key)}><${Text} value=${row.key ? keyWords(row.key) : t("audit.value")} max=${64} /></dt><dd>${cell(row.key, row.before, "was")} ${cell(row.key, row.after, "is")}</dd>`)}</dl>`;
}
