/** On the way back from what a row opened, the list stands where it was left, and the row has the focus again. */
import { useEffect } from "../core/lib.js";

/**
 * Note with the present entry of the history which row is opened. Back leads to this entry; a link to the same address
 * makes another one, which begins at the top.
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
