/** The configured stores, with their faults and their namespaces. */
import { t, tOr } from "../core/i18n.js";
import { html } from "../core/lib.js";
import { href } from "../core/router.js";
import { visible } from "../core/text.js";
import { Badge, Bytes, Text } from "../ui/formats.js";
import { Table } from "../ui/tables.js";

/** @typedef {import("../../answers").Schemas["StoreView"]} Store */

/** @type {(import("../ui/tables.js").Column<Store> & {label: string})[]} */
const COLUMNS = [
  {
    key: "name",
    label: "namespaces.store",
    phone: "main",
    render: (/** @type {Store} */ { name, server }) =>
      html`<${Text} value=${name} max=${40} /> <span class="muted"><${Text} value=${server} max=${40} /></span>`,
  },
  {
    key: "state",
    label: "namespaces.state",
    phone: "side",
    render: (/** @type {Store} */ { faults }) =>
      Object.keys(faults).length > 0
        ? html`<${Badge} kind="bad">${t("fault.bad")}<//>`
        : html`<${Badge} kind="ok">${t("namespaces.store.ok")}<//>`,
  },
  {
    key: "topology",
    label: "namespaces.topology",
    priority: 2,
    render: (/** @type {Store} */ { topology }) => tOr(`namespaces.topology.${topology}`, visible(topology)),
  },
  {
    key: "memory",
    label: "namespaces.memory",
    align: "end",
    priority: 2,
    render: (/** @type {Store} */ { used_memory_bytes: used, max_memory_bytes: most }) =>
      html`<${Bytes} value=${used} />${most !== null && html` / <${Bytes} value=${most} />`}`,
  },
  {
    key: "namespaces",
    label: "nav.namespaces",
    phone: "line",
    render: (/** @type {Store} */ { namespaces }) =>
      namespaces.map(
        (/** @type {string} */ name, /** @type {number} */ at) =>
          html`${at > 0 && ", "}<a key=${name} href=${href("namespaces", { name })}>${visible(name)}</a>`,
      ),
  },
];

/** @param {{stores: Store[]}} props */
export function Stores({ stores }) {
  return html`<div class="after stores">
      <h2>${t("namespaces.stores")}</h2>
      ${stores.flatMap(({ name, faults }) =>
        Object.entries(faults).map(
          ([key, why]) =>
            html`<p key=${`${name} ${key}`} class="fault bad">
                <${Badge} kind="bad">${t("fault.bad")}<//>
                <span class="fault-text">${visible(name)}: <${Text} value=${why} max=${300} /></span>
              </p>`,
        ),
      )}
      <${Table}
        caption=${t("namespaces.stores")} rows=${stores} rowKey=${(/** @type {Store} */ store) => store.name}
        columns=${COLUMNS.map((column) => ({ ...column, label: t(column.label) }))} />
    </div>`;
}
