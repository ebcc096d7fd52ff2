/** The jobs of a batch. */
import { get } from "../core/api.js";
import { t, tOr } from "../core/i18n.js";
import { html } from "../core/lib.js";
import { useResource } from "../core/resource.js";
import { href } from "../core/router.js";
import { STATES } from "../core/states.js";
import { MEMBERS_INCLUDE, useMemberColumns } from "../jobs/columns.js";
import { ErrorBox, Loading, Pager, Tabs } from "../ui/controls.js";
import { NewRows, Table, useHold, useSteadyRows } from "../ui/tables.js";

/** @typedef {import("../../answers").Schemas["ListedJob"]} ListedJob */
/** @typedef {import("./parts.js").Batch} Batch */

const MEMBERS = 25;
// Maximum number of pages of the API to read until enough jobs are found. Each page covers a part of the members, and
// this part may have few jobs in the wanted state.
const MAX_PAGES = 10;

const ALL = "all";

/**
 * @param {Batch} batch
 * @param {string | undefined} state The state in the address.
 * @returns {string} The state of the listed jobs; empty: all states. Without a state in the address, failures come
 *   first.
 */
export function shownState(batch, state) {
  if (state && STATES[state]) return state;
  return state !== ALL && batch.counts.failed > 0 ? "failed" : "";
}

/** @param {{id: string}} one @returns {string} */
export const idOf = (one) => one.id;

/**
 * Load a page of the members in one state. One call of the API covers only a part of the members.
 * @param {Batch} batch
 * @param {{state: string, cursor: string | null}} query
 * @param {AbortSignal} signal
 */
async function loadMembers(batch, query, signal) {
  const wanted = { ...query, batch: batch.id, order: "oldest", include: MEMBERS_INCLUDE };
  const jobs = [];
  let cursor = query.cursor;
  for (let page = 0; page < MAX_PAGES && jobs.length < MEMBERS; page += 1) {
    /** @type {import("../../answers").Answer<"api/jobs">} */
    const found = await get("api/jobs", { ...wanted, cursor, limit: MEMBERS - jobs.length }, signal);
    jobs.push(...found.jobs);
    cursor = found.next_cursor;
    if (cursor === null) break;
  }
  return { jobs, next_cursor: cursor };
}

/** @param {{batch: Batch, query: Record<string, string>, go: typeof import("../core/router.js").go}} props */
export function Members({ batch, query, go }) {
  const hold = useHold();
  const state = shownState(batch, query["state"]);
  const cursor = query["cursor"] ?? null;
  const of = JSON.stringify([batch.id, state, cursor]);
  const found = useResource(
    async (signal) => ({ ...(await loadMembers(batch, { state, cursor }, signal)), of }),
    [of],
    // Load rarely if a load takes many requests: a large batch with few jobs in the wanted state.
    { events: ["jobs"], leastMs: state && batch.counts.total > 5000 ? 10_000 : 2000, everyMs: 10_000 },
  );
  const { rows, newCount, showNew } = useSteadyRows(
    found.data?.jobs ?? [],
    idOf,
    hold.isHeld,
    found.data?.of ?? "",
  );
  const columns = useMemberColumns(rows);
  const shown = { id: batch.id, state: state || ALL };
  const counts = /** @type {Record<string, number | null | undefined>} */ ({ ...batch.counts });
  const states = Object.keys(STATES).filter(
    (one) => one === state || counts[one] === null || (counts[one] ?? 0) > 0,
  );
  const tabs = [
    {
      key: "",
      label: t("batches.state.all"),
      count: batch.counts.total,
      href: href("batches", { id: batch.id, state: ALL }),
    },
    ...states.map((one) => ({
      key: one,
      label: tOr(`state.${one}`, one),
      ...(typeof counts[one] === "number" && { count: counts[one] }),
      href: href("batches", { id: batch.id, state: one }),
    })),
  ];
  return html`<section class="after" aria-labelledby="members">
      <div class="page-head">
        <h2 id="members">${t("batches.members")}</h2>
        <a class="button small as-link" href=${href("jobs", { batch: batch.id, state })}>
          ${t("batches.members.jobs")}
        </a>
      </div>
      <${Tabs} label=${t("job.state")} tabs=${tabs} current=${state} />
      <${ErrorBox} problem=${found.problem} onRetry=${found.reload} />
      ${
        !found.data
          ? html`<${Loading} isLoading=${!found.problem} />`
          : html`<div ...${hold.bind}>
              <${NewRows} count=${newCount} onShow=${showNew} />
              <${Table}
                isFixed caption=${t("nav.jobs")} rows=${rows} rowKey=${idOf}
                label=${(/** @type {ListedJob} */ job) => job.name}
                onOpen=${(/** @type {ListedJob} */ job) => go("job", { id: job.id })}
                columns=${columns}
                empty=${html`<div class="card"><p class="muted">${t(found.data.next_cursor ? "jobs.empty.so_far" : "batches.members.none")}</p></div>`} />
            </div>`
      }
      <${Pager}
        hasNext=${Boolean(found.data?.next_cursor)} hasBefore=${cursor !== null} isLoading=${found.isLoading}
        onNext=${() => go("batches", { ...shown, cursor: found.data?.next_cursor })}
        onFirst=${() => go("batches", shown)} />
    </section>`;
}
