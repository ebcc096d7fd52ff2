/** Workers in groups: by machine, by version, or by label. */
import { html } from "../core/lib.js";
import { get } from "../core/api.js";
import { number, t } from "../core/i18n.js";
import { useResource } from "../core/resource.js";
import { href } from "../core/router.js";
import { visible } from "../core/text.js";
import { Marks, figureColumns, sortedByFigures } from "./figures.js";
import { Button, Empty, ErrorBox, Loading } from "../ui/controls.js";
import { Badge, Text } from "../ui/formats.js";
import { Table } from "../ui/tables.js";
import { KINDS, ORDER, POLL_MS, Slots } from "./states.js";

/** @typedef {import("../../answers").Schemas["WorkerGroup"]} WorkerGroup */
/**
 * @typedef {((selection: import("./drains.js").Selection, what: string) => void) | null} OnDrain
 *   Null: the reader may not drain.
 */

/** @param {WorkerGroup} group @returns {string} The value of the list's filter that selects the workers of the group. */
const groupValue = (group) => (group.label === null ? group.value : `${group.label}=${group.value}`);

/** @param {string} by @param {WorkerGroup} group @returns {import("./drains.js").Selection} */
function selectionOf(by, group) {
  if (by === "label") return { label: { name: group.label ?? "", value: group.value } };
  return by === "node" ? { node_id: group.value } : { version: group.value };
}

/** @param {{by: string, query: Record<string, string>, go: typeof import("../core/router.js").go, onDrain: OnDrain}} props */
export function Groups({ by, query, go, onDrain }) {
  const { data, problem, reload } = useResource((signal) => get("api/workers/groups", { by }, signal), [by], {
    events: ["workers"],
    leastMs: 1000,
    pollMs: POLL_MS,
  });
  const sort = query["sort"] ?? "";
  const address = (/** @type {WorkerGroup} */ group) => ({ [by]: groupValue(group) });
  const rows = sortedByFigures(data?.groups ?? [], sort);
  return html`<${ErrorBox} problem=${problem} onRetry=${reload} />${
    data === null
      ? !problem && html`<${Loading} />`
      : html`<${Table}
          caption=${t(`workers.group.${by}`)} rows=${rows} rowKey=${groupValue}
          onOpen=${(/** @type {WorkerGroup} */ group) => go("workers", address(group))} sort=${sort}
          onSort=${(/** @type {string} */ next) =>
            go(
              "workers",
              { ...query, sort: next === sort ? "" : next },
              { replace: true },
            )} empty=${html`<${Empty} title=${t("workers.groups.none")} />`} columns=${[
            {
              key: "value",
              label: t(`workers.group.${by}`),
              phone: "main",
              render: (/** @type {WorkerGroup} */ group) =>
                html`<a href=${href("workers", address(group))}>
                    <${Text} value=${groupValue(group)} max=${80} />
                  </a>
                  <span class="narrow-only"><${Marks} figures=${group.figures} /></span>`,
            },
            {
              key: "states",
              label: t("nav.workers"),
              phone: "line",
              render: (/** @type {WorkerGroup} */ group) =>
                html`${ORDER.filter((state) => group.workers[state] > 0).map(
                  (state) =>
                    html`<${Badge} kind=${KINDS[state]}>${number(group.workers[state])} ${t(`worker.${state}`)}<//> `,
                )}`,
            },
            {
              key: "slots",
              label: t("workers.slots"),
              align: "end",
              priority: 2,
              render: (/** @type {WorkerGroup} */ group) => html`<${Slots} worker=${group} />`,
            },
            ...figureColumns(),
            ...(onDrain
              ? [
                  {
                    key: "act",
                    label: t("job.actions"),
                    phone: /** @type {const} */ ("side"),
                    render: (/** @type {WorkerGroup} */ group) =>
                      group.workers.fresh + group.workers.stale > 0 &&
                      html`<${Button}
                          opensDialog class="small"
                          aria-label=${`${t("workers.drain")}: ${visible(groupValue(group))}`}
                          onClick=${() => onDrain(selectionOf(by, group), groupValue(group))}>
                          ${t("workers.drain")}
                        <//>`,
                  },
                ]
              : []),
          ]} />`
  }`;
}
