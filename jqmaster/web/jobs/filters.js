/** The filters of a list of jobs. They have three forms: that of the address, that of the inputs, and that of the API. */
import { html, useEffect, useState } from "../core/lib.js";
import { get } from "../core/api.js";
import { t } from "../core/i18n.js";
import { titleOf } from "../batches/parts.js";
import { isIn } from "../core/states.js";
import { Button } from "../ui/controls.js";
import { FilterChoice, FilterInput, FilterInstant } from "../ui/filters.js";
import { Text, nowMs } from "../ui/formats.js";
import { inputOf, useZone } from "../ui/instants.js";

/** @typedef {import("../../answers").Schemas["WorkerView"]} Worker */

const CAUSES = ["error", "timeout", "undecodable", "invalid_argument", "lost", "expired", "canceled"];
const TIME_FILTERS = ["created_after", "created_before", "finished_after", "finished_before"];
const NUMBER_FILTERS = ["min_attempt", "min_duration", "max_duration"];
/** The filters of an address. The API has these filters too, except `within`, `field`, `op` and `value`. */
export const FILTERS = [
  "state", "q", "name", "tag", "batch", "worker", "text", "cause", "failure_group", ...TIME_FILTERS, ...NUMBER_FILTERS,
  "within", "field", "op", "value",
]; // prettier-ignore
const OF_API = FILTERS.filter((key) => !["within", "field", "op", "value"].includes(key));
const OPS = ["eq", "ne", "lt", "le", "gt", "ge", "glob", "exists"];
const DEPLOY = "deploy";
/** The form of a complete ID, which the filter for batches needs. */
const ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
/** @type {Record<string, number>} */
const WINDOWS_MS = {
  "10m": 600_000,
  "1h": 3_600_000,
  "6h": 21_600_000,
  "24h": 86_400_000,
  "7d": 604_800_000,
};

/**
 * @param {string} text
 * @returns {unknown} A number, true, false or null if the text is one of these. Otherwise, or if the text is quoted, a
 *   string.
 */
export function constantOf(text) {
  try {
    const value = JSON.parse(text);
    return value === null || typeof value !== "object" ? value : text;
  } catch {
    return text;
  }
}

/**
 * @param {Record<string, string>} query
 * @returns {Record<string, unknown> | null} The matcher that the fields of an address describe.
 */
export function matcherOf(query) {
  const field = query["field"];
  if (!field) return null;
  const op = OPS.includes(query["op"] ?? "") ? query["op"] : "eq";
  const text = query["value"] ?? "";
  if (op === "exists") return { field, op, value: text !== "false" };
  if (text === "") return null;
  return { field, op, value: op === "glob" ? text : constantOf(text) };
}

/**
 * Return the filter for a call that lists or counts jobs. A time window ends now.
 * @param {Record<string, string>} query
 * @param {number | null} deployedMs
 * @returns {Record<string, string>}
 */
export function filterOf(query, deployedMs) {
  const filter = Object.fromEntries(OF_API.flatMap((key) => (query[key] ? [[key, query[key]]] : [])));
  const matcher = matcherOf(query);
  if (matcher) filter["matcher"] = JSON.stringify(matcher);
  const sinceMs =
    query["within"] === DEPLOY ? deployedMs : nowMs() - (WINDOWS_MS[query["within"] ?? ""] ?? NaN);
  if (sinceMs !== null && !Number.isNaN(sinceMs)) {
    const key = isIn(query["state"] ?? "", "finished") ? "finished_after" : "created_after";
    filter[key] = new Date(sinceMs).toISOString();
  }
  return filter;
}

/**
 * Return the same filter for an action on many jobs. The body of this request has numbers and documents in place of
 * texts.
 * @param {Record<string, string>} filter
 * @returns {Record<string, unknown>}
 */
export const actionFilterOf = (filter) =>
  Object.fromEntries(
    Object.entries(filter).map(([key, value]) => [
      key,
      key === "matcher" ? JSON.parse(value) : NUMBER_FILTERS.includes(key) ? Number(value) : value,
    ]),
  );

/**
 * Return when the newest worker version first registered; null until it is known, or if no worker reports a version.
 * @param {boolean} isWanted
 * @returns {number | null}
 */
export function useDeployedMs(isWanted) {
  const [deployedMs, setDeployedMs] = useState(/** @type {number | null} */ (null));
  useEffect(() => {
    if (!isWanted) return undefined;
    const aborter = new AbortController();
    get("api/workers", {}, aborter.signal).then(
      (answer) => setDeployedMs(deployOf(answer.workers)),
      () => {},
    );
    return () => aborter.abort();
  }, [isWanted]);
  return deployedMs;
}

/** @param {Worker[]} workers @returns {number | null} */
export function deployOf(workers) {
  /** @type {Map<string, number>} */
  const first = new Map();
  for (const worker of workers) {
    const at = Date.parse(worker.registered_at);
    if (worker.version && !worker.built_in)
      first.set(worker.version, Math.min(at, first.get(worker.version) ?? at));
  }
  return first.size ? Math.max(...first.values()) : null;
}

// The filters that are always shown, except on phones.
const SHOWN = ["q", "name", "tag", "within", "cause"];
/** @param {string} key The key of a filter. @param {boolean} isMore @returns {boolean} Whether an input already shows the filter. */
const hasField = (key, isMore) =>
  SHOWN.includes(key) || (isMore && key !== "failure_group" && key !== "batch");

/** @typedef {import("../batches/parts.js").Batch} Batch */
/** @typedef {(changes: Record<string, string | undefined>, replace?: boolean) => void} Change */

/** @param {{query: Record<string, string>, batch: Batch | null, change: Change}} props `batch`: the batch with the listed members. */
export function Filters({ query, batch, change }) {
  useZone();
  const isMoreWanted = [
    "batch",
    "worker",
    "text",
    "failure_group",
    "field",
    ...TIME_FILTERS,
    ...NUMBER_FILTERS,
  ].some((key) => query[key]);
  const [isMore, setMore] = useState(isMoreWanted);
  const names = useNames(query["name"] ?? "");
  return html`<form
      class=${`filters ${isMore ? "is-open" : ""}`} role="search" aria-label=${t("filters")}
      onSubmit=${(/** @type {Event} */ e) => e.preventDefault()}>
      <${Typed} of="q" query=${query} change=${change} />
      <${Typed} of="name" query=${query} change=${change} list="names" />
      <${Typed} of="tag" query=${query} change=${change} />
      <${FilterChoice}
        label=${withinText(query)} value=${query["within"] ?? ""} options=${[
          ["", t("filter.any")],
          ...[...Object.keys(WINDOWS_MS), DEPLOY].map((one) => [one, t(`filter.within.${one}`)]),
        ]}
        onChange=${(/** @type {string} */ within) => change({ within })} />
      <${FilterChoice}
        label=${t("filter.cause")} value=${query["cause"] ?? ""}
        options=${[["", t("filter.any")], ...CAUSES.map((cause) => [cause, t(`cause.${cause}`)])]}
        onChange=${(/** @type {string} */ cause) => change({ cause })} />
      <datalist id="names">${names.map((name) => html`<option key=${name} value=${name} />`)}</datalist>
      <${Button} class="more" aria-expanded=${String(isMore)} onClick=${() => setMore(!isMore)}>
        ${t(isMore ? "filters.less" : "filters.more")}
      <//>
      ${isMore && html`<${MoreFilters} query=${query} change=${change} />`}
      <${Chips} query=${query} batch=${batch} isMore=${isMore} change=${change} />
    </form>`;
}

/** @param {Record<string, string>} query @returns {string} The filter that the time window applies to. */
const withinText = (query) =>
  t(isIn(query["state"] ?? "", "finished") ? "filter.within.finished" : "filter.within.created");

/** @param {{of: string, query: Record<string, string>, change: Change} & Record<string, unknown>} props `of`: the key of the filter. */
function Typed({ of, query, change, ...more }) {
  return html`<${FilterInput}
      label=${t(`filter.${of}`)} value=${query[of] ?? ""}
      onChange=${(/** @type {string} */ text) => change({ [of]: text }, true)} ...${more} />`;
}

/** @param {{query: Record<string, string>, change: Change}} props The filters that are seldom used. */
function MoreFilters({ query, change }) {
  const common = { query, change };
  return html`<${Typed} of="text" ...${common} /><${Typed} of="field" ...${common} placeholder="argument.tenant" />
    <${FilterChoice}
      label=${t("filter.op")} value=${query["op"] || "eq"} options=${OPS.map((op) => [op, t(`filter.op.${op}`)])}
      onChange=${(/** @type {string} */ op) => change({ op }, true)} />
    <${Typed} of="value" ...${common} placeholder="globex" maxlength=${1024} />
    <${Typed} of="worker" ...${common} />
    <${Typed}
      of="batch" ...${common} maxlength=${36} placeholder="0198c3f4-5e6a-7b8c-9d0e-1f2a3b4c5d6e"
      pattern=${ID.source}
      onChange=${(/** @type {string} */ id) => (id === "" || ID.test(id)) && change({ batch: id }, true)} />
    ${NUMBER_FILTERS.map(
      (key) =>
        html`<${Typed}
            key=${key} of=${key} ...${common} type="number" min=${key === "min_attempt" ? "1" : "0"}
            step=${key === "min_attempt" ? "1" : "any"} />`,
    )}
    ${TIME_FILTERS.map(
      (key) =>
        html`<${FilterInstant}
            key=${key} label=${t(`filter.${key}`)} value=${query[key] ?? ""}
            onChange=${(/** @type {string} */ at) => change({ [key]: at }, true)} />`,
    )}`;
}

/**
 * The filters in force, each with a button that removes it.
 * @param {{query: Record<string, string>, batch: Batch | null, isMore: boolean, change: Change}} props
 */
function Chips({ query, batch, isMore, change }) {
  const active = FILTERS.filter((key) => key !== "state" && key !== "op" && key !== "value" && query[key]);
  if (active.length === 0) return null;
  return html`<div class="chips">
      ${active.map(
        (key) =>
          html`<span key=${key} class=${`chip ${hasField(key, isMore) ? "has-field" : ""}`}>
              <${ChipText} of=${key} query=${query} batch=${batch} />
              <button
                type="button" aria-label=${t("filter.remove", { name: t(`filter.${key}`) })}
                onClick=${() => change(key === "field" ? { field: "", op: "", value: "" } : { [key]: "" })}>
                ✕
              </button>
            </span>`,
      )}
      <button
        type="button" class="link"
        onClick=${() => change(Object.fromEntries([...active, "op", "value"].map((key) => [key, ""])))}>
        ${t("filter.clear")}
      </button>
    </div>`;
}

/** @param {{of: string, query: Record<string, string>, batch: Batch | null}} props */
function ChipText({ of, query, batch }) {
  if (of === "field") {
    const matcher = matcherOf(query);
    const text = matcher && `${query["field"]} ${t(`filter.op.${matcher["op"]}`)} ${query["value"] ?? ""}`;
    return html`<${Text} value=${text ?? query["field"]} max=${80} />`;
  }
  if (of === "within") return `${withinText(query)}: ${t(`filter.within.${query[of]}`)}`;
  if (of === "batch" && batch)
    return html`${t("filter.batch.name")}: <${Text} value=${titleOf(batch)} max=${60} />`;
  const instant = TIME_FILTERS.includes(of) ? inputOf(query[of]).replace("T", " ") : "";
  return html`${t(`filter.${of}`)}: <${Text} value=${instant || query[of]} max=${60} />`;
}

/** @param {string} typed @returns {string[]} */
function useNames(typed) {
  const [names, setNames] = useState(/** @type {string[]} */ ([]));
  useEffect(() => {
    const aborter = new AbortController();
    get("api/names", { q: typed, sort: "pushed", limit: 20 }, aborter.signal).then(
      (answer) => setNames(answer.names.map((name) => name.name)),
      () => {},
    );
    return () => aborter.abort();
  }, [typed]);
  return names;
}
