/** Tables with keyboard navigation, and rows that do not move while somebody reads them. */
import { leaveFor, useReturn } from "./returns.js";
import { t } from "../core/i18n.js";
import { html, useCallback, useMemo, useRef, useState } from "../core/lib.js";
import { visible } from "../core/text.js";
import { Button } from "./controls.js";
import { useKeys } from "./keys.js";

/** @typedef {import("../core/lib.js").Node} Node */

/**
 * @template Row
 * @typedef {object} Column
 * @property {string} key
 * @property {Node} label
 * @property {(row: Row) => Node} render
 * @property {"end"} [align] For numbers.
 * @property {1 | 2 | 3 | 4 | 5} [priority] 2 is hidden on phones, 3 below a wide window, 4 below a very wide one, 5
 *   except on large screens.
 * @property {string} [sort] The word for `onSort`.
 * @property {"main" | "side" | "line"} [phone] Its place on phones, where a row has two lines: first in the first line, at the end of it, or in
 *   the second. If any column has a place, columns without a place are not shown on phones.
 * @property {number} [width] In rem, where the table is fixed: the share of its width that the column gets.
 */

/**
 * A table with keys for its rows: j and k move between rows, Enter opens a row, and x selects it.
 * @template Row
 * @typedef {{caption: string, columns: Column<Row>[], rows: Row[], rowKey: (row: Row) => string, onOpen?: (row: Row) => void, rowClass?: (row: Row) => string,
 *   selected?: Set<string>, onSelect?: (selected: Set<string>) => void, sort?: string, isAscending?: boolean,
 *   onSort?: (sort: string) => void, empty?: Node, label?: (row: Row) => string, isFixed?: boolean}} TableProps
 *   `isFixed`: widths and heights do not depend on the content of cells, so that nothing moves when rows come and go.
 */

/**
 * @template Row
 * @param {TableProps<Row>} props
 */
export function Table(props) {
  const { caption, columns, rows, rowKey, onOpen, selected, onSelect, empty, isFixed = false } = props;
  const body = useRef(/** @type {HTMLElement | null} */ (null));
  const keys = useMemo(() => rows.map(rowKey), [rows]);
  const toggle = useToggle(keys, selected, onSelect);
  useRowKeys(body, keys, onSelect && ((key) => toggle(key, false)));
  useReturn(onOpen ? keys.join() : "");
  if (rows.length === 0 && empty) return empty;
  const hasLines = columns.some((column) => column.phone);
  return html`<div
      class=${`table-box ${isFixed ? "fixed" : ""} ${hasLines ? "lines" : ""}`} tabindex="0" role="region"
      aria-label=${caption}>
      <table>
        <caption class="sr">${caption}</caption>
        <thead>
          <tr>
            ${onSelect && html`<${PickAll} keys=${keys} selected=${selected} onSelect=${onSelect} />`}
            ${columns.map((column) => html`<${Heading} key=${column.key} column=${column} table=${props} />`)}
          </tr>
        </thead>
        <tbody ref=${body}>
          ${rows.map((row, at) => {
            const key = keys[at] ?? "";
            return html`<${TableRow} key=${isFixed ? at : key} row=${row} id=${key} table=${props} toggle=${toggle} />`;
          })}
        </tbody>
      </table>
    </div>`;
}

/**
 * @param {string[]} keys The keys of all rows, in their order.
 * @param {Set<string> | undefined} selected
 * @param {((selected: Set<string>) => void) | undefined} onSelect
 * @returns {(key: string, isRange: boolean) => void} Selects a row or ends its selection. With `isRange`, selects all
 *   rows from the last selected row to this one.
 */
function useToggle(keys, selected, onSelect) {
  const lastPicked = useRef(/** @type {string | null} */ (null));
  return useCallback(
    (key, isRange) => {
      if (!selected || !onSelect) return;
      const next = new Set(selected);
      const from = isRange && lastPicked.current ? keys.indexOf(lastPicked.current) : -1;
      const to = keys.indexOf(key);
      if (from >= 0) for (const one of keys.slice(Math.min(from, to), Math.max(from, to) + 1)) next.add(one);
      else if (!next.delete(key)) next.add(key);
      lastPicked.current = key;
      onSelect(next);
    },
    [selected, onSelect, keys],
  );
}

/**
 * Move between the rows by j and k, and select them by x.
 * @param {{current: HTMLElement | null}} body
 * @param {string[]} keys
 * @param {((key: string) => void) | undefined} pick
 */
function useRowKeys(body, keys, pick) {
  const elements = () => /** @type {HTMLElement[]} */ ([...(body.current?.children ?? [])]);
  const focused = () => elements().findIndex((row) => row.contains(document.activeElement));
  const focus = (/** @type {number} */ at) => elements()[at]?.focus();
  useKeys({
    j: () => focus(Math.min(keys.length - 1, focused() + 1)),
    k: () => focus(Math.max(0, focused() - 1)),
    ...(pick && {
      x: () => {
        const key = keys[focused()];
        if (key) pick(key);
      },
    }),
  });
}

/** @param {{keys: string[], selected: Set<string> | undefined, onSelect: (selected: Set<string>) => void}} props */
function PickAll({ keys, selected, onSelect }) {
  const isAll = keys.length > 0 && keys.every((key) => selected?.has(key));
  const change = () => {
    const next = new Set(selected);
    for (const key of keys) {
      if (isAll) next.delete(key);
      else next.add(key);
    }
    onSelect(next);
  };
  return html`<th scope="col" class="pick">
      <label class="pick-box">
        <input type="checkbox" aria-label=${t("select.page")} checked=${isAll} onChange=${change} />
      </label>
    </th>`;
}

/**
 * @template Row
 * @param {{column: Column<Row>, table: TableProps<Row>}} props
 */
function Heading({ column, table: { sort, isAscending = false, onSort, isFixed = false } }) {
  const isSorted = Boolean(column.sort) && sort === column.sort;
  return html`<th
      scope="col" class=${columnClass(column)}
      style=${isFixed && column.width ? { width: `${column.width}rem` } : undefined}
      aria-sort=${isSorted ? (isAscending ? "ascending" : "descending") : undefined}>
      ${
        column.sort && onSort
          ? html`<button
              type="button" class="sort" onClick=${() => onSort(/** @type {string} */ (column.sort))}>
              ${column.label}${isSorted ? (isAscending ? " ▴" : " ▾") : ""}
            </button>`
          : column.label
      }
    </th>`;
}

/**
 * @template Row
 * @param {{row: Row, id: string, table: TableProps<Row>, toggle: (key: string, isRange: boolean) => void}} props `id`:
 *   the key of the row.
 */
function TableRow({ row, id, table, toggle }) {
  const { columns, onOpen, rowClass, selected, onSelect, label } = table;
  const isPicked = selected?.has(id) ?? false;
  return html`<tr
      data-key=${id} tabindex="-1"
      class=${`${rowClass?.(row) ?? ""} ${isPicked ? "picked" : ""} ${onOpen ? "opens" : ""}`}
      aria-selected=${onSelect ? String(isPicked) : undefined}
      onKeyDown=${(/** @type {KeyboardEvent} */ e) => {
        if (e.key === "Enter" && e.target === e.currentTarget && onOpen) {
          leaveFor(id);
          onOpen(row);
        }
      }} onClick=${(/** @type {MouseEvent} */ e) => {
        if (onOpen) leaveFor(id);
        if (onOpen && !isControl(e.target) && !hasSelection()) onOpen(row);
      }}>
      ${
        onSelect &&
        html`<td class="pick">
            <label class="pick-box">
              <input
                type="checkbox" aria-label=${t("select.row", { name: visible(label?.(row) ?? id) })}
                checked=${isPicked} onClick=${(/** @type {MouseEvent} */ e) => {
                  e.stopPropagation();
                  toggle(id, e.shiftKey);
                }} />
            </label>
          </td>`
      }
      ${columns.map(
        (column) =>
          html`<td
              key=${column.key} class=${columnClass(column)}
              data-label=${typeof column.label === "string" ? column.label : undefined}>
              ${column.render(row)}
            </td>`,
      )}
    </tr>`;
}

/** @param {Omit<Column<never>, "render">} column */
function columnClass(column) {
  return `col-${column.key} ${column.align === "end" ? "end" : ""} ${column.priority ? `p${column.priority}` : ""} ${column.phone ? `at-${column.phone}` : ""}`;
}

/** @param {EventTarget | null} target */
function isControl(target) {
  return (
    target instanceof Element && target.closest("a, button, input, select, textarea, label, summary") !== null
  );
}

function hasSelection() {
  return (window.getSelection()?.toString() ?? "") !== "";
}

/**
 * Return whether rows must not move, because the pointer or the focus is in the table.
 * @returns {{isHeld: boolean, bind: Record<string, unknown>}} `bind`: attributes for an element around the table.
 */
export function useHold() {
  const [isOver, setOver] = useState(false);
  const [isFocused, setFocused] = useState(false);
  return {
    isHeld: isOver || isFocused,
    bind: {
      onPointerEnter: (/** @type {PointerEvent} */ e) => {
        if (e.pointerType === "mouse") setOver(true);
      },
      onPointerLeave: () => setOver(false),
      onFocusIn: () => setFocused(true),
      onFocusOut: (/** @type {FocusEvent} */ e) => {
        if (
          !(e.relatedTarget instanceof globalThis.Node) ||
          !(/** @type {Element} */ (e.currentTarget).contains(e.relatedTarget))
        )
          setFocused(false);
      },
    },
  };
}

/**
 * Keep rows from moving while they are held: shown rows are updated in place, and new ones are counted.
 * @template Row
 * @param {Row[]} rows The newest rows.
 * @param {(row: Row) => string} rowKey
 * @param {boolean} isHeld
 * @param {string} of A text that identifies the list. When it changes, new rows are shown at once.
 * @returns {{rows: Row[], newCount: number, showNew: () => void}}
 */
export function useSteadyRows(rows, rowKey, isHeld, of) {
  const shown = useRef({ rows, of });
  const [, redraw] = useState(0);
  if (!isHeld || shown.current.of !== of || shown.current.rows.length === 0) shown.current = { rows, of };
  const newest = new Map(rows.map((row) => [rowKey(row), row]));
  const known = new Set(shown.current.rows.map(rowKey));
  return {
    rows: shown.current.rows.map((row) => newest.get(rowKey(row)) ?? row),
    newCount: rows.filter((row) => !known.has(rowKey(row))).length,
    showNew: () => {
      shown.current = { rows, of };
      redraw((/** @type {number} */ n) => n + 1);
    },
  };
}

/** @param {{count: number, onShow: () => void}} props */
export function NewRows({ count, onShow }) {
  return html`<div class="new-rows" aria-live="polite">${count > 0 && html`<${Button} kind="primary" onClick=${onShow}>${t("rows.new", { count })}<//>`}</div>`;
}
