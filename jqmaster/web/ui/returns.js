/** Back from what a row opened, the list stands where it was left, and the row has the focus again. */
import { useEffect } from "../lib.js";

/** @type {{address: string, key: string, top: number} | null} */
let left = null;

/** @param {string} key The row that is opened, of the table of the present address. */
export function leaveFor(key) {
  left = { address: location.hash, key, top: scrollY };
}

/** @param {string} rows What the list holds; empty while it is not known. */
export function useReturn(rows) {
  useEffect(() => {
    if (!rows || left === null) return;
    const { address, key, top } = left;
    left = null;
    if (address !== location.hash) return;
    scrollTo(0, top);
    for (const row of document.querySelectorAll("tr[data-key]"))
      if (row instanceof HTMLElement && row.dataset["key"] === key) row.focus({ preventScroll: true });
  }, [rows !== ""]);
}
