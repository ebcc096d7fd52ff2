/** The filters of a list of jobs, in the forms of the address, of the inputs and of the API. */
import { html, useEffect, useState } from "../core/lib.js";
import { get } from "../core/api.js";
import { t } from "../core/i18n.js";
import { titleOf } from "../batches/parts.js";
import { isIn } from "../core/states.js";
import { Button } from "../ui/controls.js";
import { FilterInput, FilterInstant } from "../ui/filters.js";
import { Text, nowMs } from "../ui/formats.js";
import { Field } from "../ui/forms.js";
import { inputOf, useZone } from "../ui/instants.js";

/** @typedef {import("../../answers").Schemas["WorkerView"]} Worker */

/** @typedef {import("../core/lib.js").FieldEvent} FieldEvent */

const CAUSES = ["error", "timeout", "undecodable", "invalid_argument", "lost", "expired", "canceled"];
const TIME_FILTERS = ["created_after", "created_before", "finished_after", "finished_before"];
const NUMBER_FILTERS = ["min_attempt", "min_duration", "max_duration"];
/** The filters of an address. `within`, `field`, `op` and `value` belong to this page, the others to the API. */
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
 * @returns {unknown} A number, true, false or null if the text is one; otherwise, or in quotes, a text.
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
 * The filter for a call that lists or counts. A window in time ends now.
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
 * The same for an action on many jobs, whose body has numbers and documents.
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
/** @param {string} key Of a filter. @param {boolean} isMore @returns {boolean} Whether a field shows it already. */
const hasField = (key, isMore) =>
  SHOWN.includes(key) || (isMore && key !== "failure_group" && key !== "batch");

/**
 * @param {{query: Record<string, string>, batch: import("../batches/parts.js").Batch | null, change: (changes:
 *   Record<string, string | undefined>, replace?: boolean) => void}} props `batch`: the one whose members are listed.
 */
export function Filters({ query, batch, change }) {
  useZone();
  const active = FILTERS.filter((key) => key !== "state" && key !== "op" && key !== "value" && query[key]);
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
  const ended = isIn(query["state"] ?? "", "finished");
  /** @param {string} key @param {Record<string, unknown>} [more] */
  const typed = (key, more = {}) =>
    html`<${FilterInput}
        key=${key} label=${t(`filter.${key}`)} value=${query[key] ?? ""}
        onChange=${(/** @type {string} */ text) => change({ [key]: text }, true)} ...${more} />`;
  const matcher = matcherOf(query);
  const chipText = (/** @type {string} */ key) =>
    key === "batch" && batch
      ? titleOf(batch)
      : TIME_FILTERS.includes(key)
        ? inputOf(query[key]).replace("T", " ") || query[key]
        : query[key];
  return html`<form
      class=${`filters ${isMore ? "is-open" : ""}`} role="search" aria-label=${t("filters")}
      onSubmit=${(/** @type {Event} */ e) => e.preventDefault()}>
      ${typed("q")}
      ${typed("name", { list: "names" })}
      ${typed("tag")}
      <${Field} label=${t(ended ? "filter.within.finished" : "filter.within.created")}>
        ${(/** @type {Record<string, unknown>} */ a) =>
          html`<select
              ...${a} value=${query["within"] ?? ""}
              onChange=${(/** @type {FieldEvent} */ e) => change({ within: e.target.value })}>
              <option value="">${t("filter.any")}</option>
              ${[...Object.keys(WINDOWS_MS), DEPLOY].map(
                (one) => html`<option key=${one} value=${one}>${t(`filter.within.${one}`)}</option>`,
              )}
            </select>`}
      <//>
      <${Field} label=${t("filter.cause")}>
        ${(/** @type {Record<string, unknown>} */ a) =>
          html`<select
              ...${a} value=${query["cause"] ?? ""}
              onChange=${(/** @type {FieldEvent} */ e) => change({ cause: e.target.value })}>
              <option value="">${t("filter.any")}</option>
              ${CAUSES.map(
                (cause) => html`<option key=${cause} value=${cause}>${t(`cause.${cause}`)}</option>`,
              )}
            </select>`}
      <//>
      <datalist id="names">${names.map((name) => html`<option key=${name} value=${name} />`)}</datalist>
      <${Button} class="more" aria-expanded=${String(isMore)} onClick=${() => setMore(!isMore)}>
        ${t(isMore ? "filters.less" : "filters.more")}
      <//>
      ${
        isMore &&
        html`${typed("text")}${typed("field", { placeholder: "argument.tenant" })}
          <${Field} label=${t("filter.op")}>
            ${(/** @type {Record<string, unknown>} */ a) =>
              html`<select
                  ...${a} value=${query["op"] || "eq"}
                  onChange=${(/** @type {FieldEvent} */ e) => change({ op: e.target.value }, true)}>
                  ${OPS.map((op) => html`<option key=${op} value=${op}>${t(`filter.op.${op}`)}</option>`)}
                </select>`}
          <//>
          ${typed("value", { placeholder: "globex", maxlength: 1024 })}
          ${typed("worker")}
          ${typed("batch", {
            maxlength: 36,
            placeholder: "0198c3f4-5e6a-7b8c-9d0e-1f2a3b4c5d6e",
            pattern: ID.source,
            onChange: (/** @type {string} */ id) => (id === "" || ID.test(id)) && change({ batch: id }, true),
          })}
          ${NUMBER_FILTERS.map((key) =>
            typed(key, {
              type: "number",
              min: key === "min_attempt" ? "1" : "0",
              step: key === "min_attempt" ? "1" : "any",
            }),
          )}
          ${TIME_FILTERS.map(
            (key) =>
              html`<${FilterInstant}
                  key=${key} label=${t(`filter.${key}`)} value=${query[key] ?? ""}
                  onChange=${(/** @type {string} */ at) => change({ [key]: at }, true)} />`,
          )}`
      }
      ${
        active.length > 0 &&
        html`<div class="chips">
            ${active.map(
              (key) =>
                html`<span key=${key} class=${`chip ${hasField(key, isMore) ? "has-field" : ""}`}>
                    ${
                      key === "field"
                        ? html`<${Text}
                            value=${
                              matcher
                                ? `${query["field"]} ${t(`filter.op.${matcher["op"]}`)} ${query["value"] ?? ""}`
                                : query["field"]
                            }
                            max=${80} />`
                        : key === "within"
                          ? `${t(ended ? "filter.within.finished" : "filter.within.created")}: ${t(`filter.within.${query[key]}`)}`
                          : html`${t(`filter.${key === "batch" && batch ? "batch.name" : key}`)}: <${Text} value=${chipText(key)} max=${60} />`
                    }
                    <button
                      type="button" aria-label=${t("filter.remove", { name: t(`filter.${key}`) })}
                      onClick=${() =>
                        change(key === "field" ? { field: "", op: "", value: "" } : { [key]: "" })}>
                      ✕
                    </button>
                  </span>`,
            )}
            <button
              type="button" class="link"
              onClick=${() => change(Object.fromEntries([...active, "op", "value"].map((key) => [key, ""])))}>
              ${t("filter.clear")}
            </button>
          </div>`
      }
    </form>`;
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
