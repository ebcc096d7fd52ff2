/** The list of all objects of one kind that have names, each with a page of its own, and a dialog that creates one. */
import { may } from "../core/api.js";
import { t } from "../core/i18n.js";
import { html, useState } from "../core/lib.js";
import { go } from "../core/router.js";
import { Button, Empty, ErrorBox, Loading } from "./controls.js";
import { Table, useHold, useSteadyRows } from "./tables.js";

/** @typedef {import("../core/lib.js").Node} Node */

/** @param {{name: string}} one */
const nameOf = (one) => one.name;

/**
 * @template {{name: string}} Row
 * @param {{page: "calendars" | "notices" | "targets", session: import("../core/api.js").Session, rows: Row[] | undefined,
 *   found: {data: unknown, problem: import("../core/api.js").Problem | null, reload: () => Promise<void>},
 *   columns: (import("./tables.js").Column<Row> & {label: string})[], example: string,
 *   editor: (onClose: () => void, onDone: (name: string) => void) => Node}} props
 *   `found`: the answer that contains the `rows`. The labels of `columns` are keys of texts. `example`: the curl
 *   command that creates the first object. `editor`: returns the dialog.
 */
export function NamedList({ page, session, rows, found, columns, example, editor }) {
  const hold = useHold();
  const [isMaking, setMaking] = useState(false);
  const steady = useSteadyRows(rows ?? [], nameOf, hold.isHeld, "");
  const open = (/** @type {string} */ name) => go(page, { name });
  return html`<div class="page-head">
      <h1>${t(`nav.${page}`)}</h1>
      ${
        may(session, "operate") &&
        html`<${Button} opensDialog class="small" kind="primary" onClick=${() => setMaking(true)}>${t(`${page}.make`)}<//>`
      }
    </div>
    <${ErrorBox} problem=${found.problem} onRetry=${found.reload} />
    ${
      !found.data
        ? html`<${Loading} isLoading=${!found.problem} />`
        : html`<div ...${hold.bind}>
            <${Table}
              isFixed caption=${t(`nav.${page}`)} rows=${steady.rows} rowKey=${nameOf} label=${nameOf}
              onOpen=${(/** @type {Row} */ one) => open(one.name)}
              columns=${columns.map((column) => ({ ...column, label: t(column.label) }))}
              empty=${html`<div class="card"><${Empty} title=${t(`${page}.empty`)} curl=${example} /></div>`} />
          </div>`
    }
    ${isMaking && editor(() => setMaking(false), open)}`;
}
