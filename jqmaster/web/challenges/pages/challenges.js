/** Challenges: the work that other systems and people do for jobs, the questions to people, and the outcomes. */
import { AnswerButton, CHALLENGE_STATES, ChallengeState, audienceText, subjectOf } from "../parts.js";
import { get, may } from "../../core/api.js";
import { number, t } from "../../core/i18n.js";
import { html } from "../../core/lib.js";
import { useResource } from "../../core/resource.js";
import { href } from "../../core/router.js";
import { visible } from "../../core/text.js";
import { Empty, ErrorBox, Loading, Pager } from "../../ui/controls.js";
import { FilterInput } from "../../ui/filters.js";
import { Field } from "../../ui/forms.js";
import { Time } from "../../ui/formats.js";
import { NewRows, Table, useHold, useSteadyRows } from "../../ui/tables.js";

/** @typedef {import("../../core/lib.js").FieldEvent} FieldEvent */

/** @typedef {import("../../../answers").Schemas["ChallengeView"]} Challenge */

const PAGE = 50;
// Maximum number of pages of the API to read. Each page covers only a part of the jobs.
const MAX_PAGES = 10;
const FILTERS = ["state", "name"];

/** @param {Challenge} one */
const keyOf = (one) => `${one.job_id} ${one.request}`;

/**
 * Load a page of challenges. One call of the API covers only a part of the challenges, so it may miss a rare one.
 * @param {Record<string, string | undefined>} query
 * @param {AbortSignal} signal
 */
async function load(query, signal) {
  const challenges = [];
  let cursor = query["cursor"] ?? null;
  for (let page = 0; page < MAX_PAGES && challenges.length < PAGE; page += 1) {
    /** @type {import("../../../answers").Answer<"api/challenges">} */
    const found = await get("api/challenges", { ...query, cursor, limit: PAGE - challenges.length }, signal);
    challenges.push(...found.challenges);
    cursor = found.next_cursor;
    if (cursor === null) break;
  }
  return { challenges, next_cursor: cursor };
}

/** @param {{query: Record<string, string>, go: typeof import("../../core/router.js").go, session: import("../../core/api.js").Session}} props */
export function Page({ query, go, session }) {
  const hold = useHold();
  const wanted = Object.fromEntries(FILTERS.flatMap((key) => (query[key] ? [[key, query[key]]] : [])));
  const of = JSON.stringify([wanted, query["cursor"]]);
  const found = useResource(
    async (signal) => ({ ...(await load({ ...wanted, cursor: query["cursor"] }, signal)), of }),
    [of],
    { events: ["jobs"], leastMs: 1000, everyMs: 5000 },
  );
  const { rows, newCount, showNew } = useSteadyRows(
    found.data?.challenges ?? [],
    keyOf,
    hold.isHeld,
    found.data?.of ?? "",
  );
  const isFiltered = Object.keys(wanted).length > 0;
  const filter = (/** @type {string} */ key, /** @type {string} */ value) =>
    go("challenges", { ...wanted, [key]: value }, { replace: true });
  const columns = columnsOf(may(session, "operate"), found.reload);
  return html`<div class="page-head"><h1>${t("nav.challenges")}</h1></div>
    <form
      class="filters is-open" role="search" aria-label=${t("filters")}
      onSubmit=${(/** @type {Event} */ e) => e.preventDefault()}>
      <${Field} label=${t("job.state")}>
        ${(/** @type {Record<string, unknown>} */ a) =>
          html`<select
              ...${a} value=${query["state"] ?? ""}
              onChange=${(/** @type {FieldEvent} */ e) => filter("state", e.target.value)}>
              <option value="">${t("challenges.any")}</option>
              ${CHALLENGE_STATES.map(
                (state) =>
                  html`<option key=${state} value=${state}>${t(`challenges.state.${state}`)}</option>`,
              )}
            </select>`}
      <//>
      <${FilterInput}
        label=${t("challenges.name")} value=${query["name"] ?? ""}
        onChange=${(/** @type {string} */ text) => filter("name", text)} />
    </form>
    <${ErrorBox} problem=${found.problem} onRetry=${found.reload} />
    ${
      !found.data
        ? html`<${Loading} isLoading=${!found.problem} />`
        : html`<div ...${hold.bind}>
            <${NewRows} count=${newCount} onShow=${showNew} />
            <${Table}
              isFixed caption=${t("nav.challenges")} rows=${rows} rowKey=${keyOf}
              label=${(/** @type {Challenge} */ one) => one.name}
              onOpen=${(/** @type {Challenge} */ one) => go("job", { id: one.job_id })}
              columns=${columns.map((column) => ({ ...column, label: t(column.label) }))}
              empty=${html`<div class="card">
                  <${Empty} title=${t(isFiltered ? "challenges.empty.filtered" : "challenges.empty")}>
                    ${isFiltered && html`<p><a href=${href("challenges")}>${t("filter.clear")}</a></p>`}
                  <//>
                </div>`} />
          </div>`
    }
    <${Pager}
      hasNext=${Boolean(found.data?.next_cursor)} hasBefore=${Boolean(query["cursor"])}
      isLoading=${found.isLoading}
      onNext=${() => go("challenges", { ...wanted, cursor: found.data?.next_cursor })}
      onFirst=${() => go("challenges", wanted)} />`;
}

/** @param {boolean} mayAnswer @param {() => unknown} onDone @returns {(import("../../ui/tables.js").Column<Challenge> & {label: string})[]} */
const columnsOf = (mayAnswer, onDone) => [
  {
    key: "opened",
    label: "challenges.opened_at",
    width: 7,
    priority: 2,
    render: (one) => html`<${Time} at=${one.opened_at} />`,
  },
  {
    key: "state",
    label: "job.state",
    width: 7,
    phone: "line",
    render: (one) => html`<${ChallengeState} state=${one.state} />`,
  },
  {
    key: "name",
    label: "challenges.name",
    width: 10,
    phone: "main",
    render: (one) =>
      html`<a href=${href("job", { id: one.job_id })} title=${visible(one.name)}>${visible(one.name)}</a>`,
  },
  {
    key: "asks",
    label: "challenges.asks",
    priority: 2,
    phone: "line",
    render: (one) => {
      const about = visible(String(one.code ?? one.error ?? subjectOf(one)));
      return html`<span title=${about}>${about.slice(0, 300)}</span>`;
    },
  },
  {
    key: "who",
    label: "challenges.who",
    width: 12,
    priority: 3,
    render: (one) => html`<span title=${audienceText(one)}>${audienceText(one)}</span>`,
  },
  {
    key: "callbacks",
    label: "challenges.callbacks",
    width: 6,
    priority: 4,
    render: (one) => html`<span class="num">${number(one.received)} / ${number(one.expect)}</span>`,
  },
  {
    key: "due",
    label: "challenges.due_at",
    width: 6.5,
    priority: 2,
    render: (one) => html`<${Time} at=${one.due_at} />`,
  },
  {
    key: "answer",
    label: "challenges.answer",
    width: 7,
    phone: "side",
    render: (one) => (mayAnswer ? html`<${AnswerButton} one=${one} onDone=${onDone} />` : ""),
  },
];
