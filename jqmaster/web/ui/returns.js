/**
 * When somebody goes back from the page that a row opened, the list has its old position, and the row has the focus.
 */
import { useEffect } from "../core/lib.js";

/**
 * Record the opened row in the current entry of the browser history. Back leads to this entry; a link to the same
 * address creates another one, which begins at the top.
 * @param {string} row Its key.
 */
export function leaveFor(row) {
  history.replaceState({ row, top: scrollY }, "");
}

/** @param {string} rows What the list holds; empty while it is not known, or if its rows open nothing. */
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
