/**
 * Restores a list: when somebody comes back from the page that a row opened, the list is at its old position, and the
 * row has the focus.
 */
import { useEffect } from "../core/lib.js";

/**
 * Record the opened row in the current entry of the browser history. Back leads to this entry; a link to the same
 * address creates another one, which begins at the top.
 * @param {string} row The key of the row.
 */
export function leaveFor(row) {
  history.replaceState({ row, top: scrollY }, "");
}

/** @param {string} rows The keys of the rows; empty while they are not known, or if rows cannot be opened. */
export function useReturn(rows) {
  useEffect(() => {
    const left = history.state;
    if (!rows || typeof left?.row !== "string") return;
    history.replaceState(null, "");
    scrollTo(0, left.top);
    for (const row of document.querySelectorAll("tr[data-key]"))
      if (row instanceof HTMLElement && row.dataset["key"] === left.row) row.focus({ preventScroll: true });
  }, [rows !== ""]);
}
